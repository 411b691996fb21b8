-- The first ledger that a cursor protects from trimming: that of the entry after its mark-delete, or the topic's last.
-- A cursor whose record has no position, or cannot be read, protects all of them. Shadows are left out: their ledgers are
-- their sources'.
with positions as (
    select managed_ledger, cursor, coalesce(mark_delete_ledger_id, -1) as ledger_id,
           coalesce(least(mark_delete_entry_id, 1125899906842624), -1) as entry_id
    from cursors
    union all
    select substring(regexp_replace(path, '/[^/]*$', ''), length('/managed-ledgers/') + 1),
           regexp_replace(path, '^.*/', ''), cast(-1 as bigint), cast(-1 as bigint)
    from errors
    where kind = 'cursor'
)
select t.topic, p.managed_ledger, p.cursor,
       coalesce(
           min(case when l.entries > case when l.ledger_id = p.ledger_id then p.entry_id + 1 else 0 end
                    or l.unknown then l.ledger_id end),
           max(t.last_ledger_id)) as from_ledger_id,
       max(t.last_ledger_id) as last_ledger_id
from positions p
join topics t on t.managed_ledger = p.managed_ledger and t.properties['PULSAR.SHADOW_SOURCE'] is null
left join ledger_sizes l on l.managed_ledger = p.managed_ledger and l.ledger_id >= p.ledger_id
group by t.topic, p.managed_ledger, p.cursor

-- What each subscription has not acknowledged, in entries and payload bytes, and the ledger of the oldest of it: all that
-- the topic has, if the record has no position.
with per_ledger as (
    select c.topic, c.managed_ledger, c.cursor, c.state, c.backlog, l.ledger_id, l.entries, l.size, l.closed, l.unknown,
           greatest(l.entries
                    - case when l.ledger_id = c.mark_delete_ledger_id
                           then least(c.mark_delete_entry_id, 1125899906842624) + 1 else 0 end
                    - coalesce(a.entries, 0), 0) as left_over
    from cursors c
    left join ledger_sizes l
      on l.managed_ledger = c.managed_ledger and l.ledger_id >= coalesce(c.mark_delete_ledger_id, -1)
    left join acknowledged_above a
      on a.managed_ledger = c.managed_ledger and a.cursor = c.cursor and a.ledger_id = l.ledger_id
)
select topic, managed_ledger, cursor, max(state) as state,
       cast(coalesce(max(case when backlog > 1125899906842624 then 1125899906842624 else backlog end), sum(left_over))
            as bigint) as entries,
       cast(sum(case when entries > 0 then floor(cast(size as double) * left_over / entries) else 0 end) as bigint)
           as bytes,
       min(case when left_over > 0 then ledger_id end) as oldest_ledger_id,
       max(case when unknown then ledger_id end) as not_counted
from per_ledger
group by topic, managed_ledger, cursor

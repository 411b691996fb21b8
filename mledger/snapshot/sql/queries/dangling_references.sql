-- References to ledgers that perhaps do not exist
-- Ledgers that a topic lists or a cursor names but that BookKeeper does not have. Ledgers deleted after an offload do not
-- count; nor do those newer than the newest ledger in the snapshot, which were created while it was exported. Use a
-- snapshot of the whole cluster.
with named as (
    select topic, cast(null as string) as cursor, ledger_id, 'data ledger' as named_as
    from topic_ledgers
    where not coalesce(offload_deleted, false)
    union all
    select topic, cursor, cursor_ledger_id, 'cursor ledger' from cursors where cursor_ledger_id >= 0
)
select n.ledger_id, n.named_as, n.topic, n.cursor
from named n
where not exists (select 1 from ledgers l where l.ledger_id = n.ledger_id)
  and n.ledger_id <= (select coalesce(max(ledger_id), -1) from ledgers)
order by n.ledger_id, n.topic, n.cursor

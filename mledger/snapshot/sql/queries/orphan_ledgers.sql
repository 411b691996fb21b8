-- Ledgers that are perhaps orphans
-- Ledgers of managed ledgers that no topic and no cursor names, older than an hour: a younger one may not be listed yet.
-- Those of a managed ledger of which a record, or that of a cursor, is in the table `errors` are left out: that record
-- may name them. These are only candidates: ledgers that are being created or deleted are recorded elsewhere, and
-- `mledger ledgers check` reads these records. Use a snapshot of the whole cluster.
select l.ledger_id, l.managed_ledger, l.cursor, l.state, l.length,
       unix_seconds(now.time) - unix_seconds(coalesce(l.ctime, l.created)) as age_s
from ledgers l
cross join snapshot now
where l.managed_ledger is not null
  and coalesce(l.custom_metadata['component'], 'managed-ledger') = 'managed-ledger'
  and unix_seconds(now.time) - unix_seconds(coalesce(l.ctime, l.created)) >= 3600
  and not exists (select 1 from topic_ledgers t where t.ledger_id = l.ledger_id)
  and not exists (select 1 from cursors c where c.cursor_ledger_id = l.ledger_id)
  and not exists (
    select 1 from errors e
    where e.kind in ('topic', 'cursor')
      and substring(case e.kind when 'cursor' then regexp_replace(e.path, '/[^/]*$', '') else e.path end,
                    length('/managed-ledgers/') + 1) = l.managed_ledger)
order by l.ledger_id

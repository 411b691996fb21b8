-- Storage of each namespace
-- Ledgers of each namespace, those of its topics and of its cursors, with their payload bytes, and `disk_bytes`, which
-- counts every copy. Open ledgers count only if the snapshot was exported with `state=recovered`. Ledgers that name no
-- topic, as those of schemas, are in one row without a namespace.
with sizes as (
    select ledger_id, max(size) as size from ledger_sizes group by ledger_id
)
select l.tenant, l.namespace, count(*) as ledgers,
       count(l.cursor) as cursor_ledgers,
       cast(sum(case when l.state = 'CLOSED' then least(l.length, 1125899906842624) else coalesce(s.size, 0) end) as bigint)
           as bytes,
       cast(sum(case when l.state = 'CLOSED' then least(l.length, 1125899906842624) else coalesce(s.size, 0) end
                * least(coalesce(l.write_quorum, 1), 64)) as bigint) as disk_bytes
from ledgers l
left join sizes s on s.ledger_id = l.ledger_id
group by l.tenant, l.namespace
order by disk_bytes desc, l.namespace

-- Storage of each tenant
-- The same for each tenant: ledgers, payload bytes, and the bytes of all copies.
with sizes as (
    select ledger_id, max(size) as size from ledger_sizes group by ledger_id
)
select l.tenant, count(distinct l.namespace) as namespaces, count(*) as ledgers,
       cast(sum(case when l.state = 'CLOSED' then least(l.length, 1125899906842624) else coalesce(s.size, 0) end) as bigint)
           as bytes,
       cast(sum(case when l.state = 'CLOSED' then least(l.length, 1125899906842624) else coalesce(s.size, 0) end
                * least(coalesce(l.write_quorum, 1), 64)) as bigint) as disk_bytes
from ledgers l
left join sizes s on s.ledger_id = l.ledger_id
group by l.tenant
order by disk_bytes desc, l.tenant

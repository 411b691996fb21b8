-- Bytes on disk that only one subscription holds
-- For each topic the subscription that lags behind most, and the ledgers that could be trimmed, as far as retention
-- allows, if it caught up with the next one (or, if it is the only one, with the topic). Trimming deletes whole ledgers
-- and keeps the last one. `disk_bytes` counts every copy.
with ranked as (
    select n.*,
           row_number() over (partition by managed_ledger order by from_ledger_id, cursor) as place,
           lead(from_ledger_id) over (partition by managed_ledger order by from_ledger_id, cursor) as next_from,
           lead(cursor) over (partition by managed_ledger order by from_ledger_id, cursor) as next_cursor
    from cursor_needs n
)
select r.topic, r.cursor, r.next_cursor, count(*) as ledgers,
       cast(sum(l.size) as bigint) as bytes,
       cast(sum(l.size * least(coalesce(b.write_quorum, 1), 64)) as bigint) as disk_bytes
from ranked r
join ledger_sizes l
  on l.managed_ledger = r.managed_ledger
 and l.ledger_id >= r.from_ledger_id
 and l.ledger_id < least(coalesce(r.next_from, r.last_ledger_id), r.last_ledger_id)
left join ledgers b on b.ledger_id = l.ledger_id
where r.place = 1
group by r.topic, r.cursor, r.next_cursor
order by disk_bytes desc, r.topic

-- Load of each bookie
-- What each bookie is to hold by the ensembles that name it: ledgers, those of them that are open, copies of entries and
-- their payload bytes (by the average entry of each ledger; open ledgers are not counted in either).
with held as (
    select e.bookie_id, count(distinct e.ledger_id) as ledgers,
           count(distinct case when l.state <> 'CLOSED' then e.ledger_id end) as open_ledgers,
           cast(sum(coalesce(e.entries, 0)) as bigint) as entries,
           cast(sum(case when l.last_entry >= 0
                         then floor(cast(l.length as double) * e.entries / (l.last_entry + 1)) else 0 end) as bigint)
               as bytes
    from ensembles e
    join ledgers l on l.ledger_id = e.ledger_id
    group by e.bookie_id
)
select coalesce(b.bookie_id, h.bookie_id) as bookie_id, coalesce(b.state, 'unknown') as state, b.rack,
       coalesce(h.ledgers, 0) as ledgers, coalesce(h.open_ledgers, 0) as open_ledgers,
       coalesce(h.entries, 0) as entries, coalesce(h.bytes, 0) as bytes
from bookies b
full outer join held h on h.bookie_id = b.bookie_id
order by bytes desc, 1

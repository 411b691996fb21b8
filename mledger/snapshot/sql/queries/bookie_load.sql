-- Load of each bookie
-- What each bookie should hold by the ensembles that name it: ledgers, open ledgers, copies of entries and their payload
-- bytes (computed from the average entry of each ledger). The last ensemble of an open ledger counts, each member with
-- its share, only if the snapshot was exported with `state=recovered`.
with sizes as (
    select ledger_id, max(entries) as entries, max(size) as size from ledger_sizes group by ledger_id
), copies as (
    select e.bookie_id, l.ledger_id, l.state,
           case when e.entries is not null then least(e.entries, 1125899906842624)
                when l.state <> 'CLOSED' and e.last_entry is null and l.ensemble_size > 0
                then floor(cast(greatest(s.entries - coalesce(e.first_entry, 0), 0) as double)
                           * l.write_quorum / l.ensemble_size)
                else 0 end as entries,
           case when l.state = 'CLOSED' and l.last_entry >= 0
                then cast(least(l.length, 1125899906842624) as double) / (l.last_entry + 1)
                when l.state <> 'CLOSED' and s.entries > 0 then cast(s.size as double) / s.entries
                else 0 end as average
    from ensembles e
    join ledgers l on l.ledger_id = e.ledger_id
    left join sizes s on s.ledger_id = e.ledger_id
), held as (
    select bookie_id, count(distinct ledger_id) as ledgers,
           count(distinct case when state <> 'CLOSED' then ledger_id end) as open_ledgers,
           cast(sum(coalesce(entries, 0)) as bigint) as entries,
           cast(sum(least(floor(coalesce(entries, 0) * average), 1125899906842624)) as bigint) as bytes
    from copies
    group by bookie_id
)
select coalesce(b.bookie_id, h.bookie_id) as bookie_id, coalesce(b.state, 'unknown') as state, b.rack,
       coalesce(h.ledgers, 0) as ledgers, coalesce(h.open_ledgers, 0) as open_ledgers,
       coalesce(h.entries, 0) as entries, coalesce(h.bytes, 0) as bytes
from bookies b
full outer join held h on h.bookie_id = b.bookie_id
order by bytes desc, 1

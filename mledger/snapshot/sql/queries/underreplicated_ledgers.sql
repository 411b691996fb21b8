-- Under-replicated ledgers
-- Ledgers that auto-recovery has marked, and ledgers with an unregistered bookie in an ensemble. `lacking` is the number
-- of copies of entries that such bookies should have; null if the ledger is open.
with away as (
    select e.ledger_id, max(e.topic) as topic, count(distinct e.bookie_id) as bookies_away,
           case when count(*) = count(e.entries) then cast(sum(least(e.entries, 1125899906842624)) as bigint) end
               as lacking
    from ensembles e
    left join bookies b on b.bookie_id = e.bookie_id
    where b.bookie_id is null or b.state = 'away'
    group by e.ledger_id
)
select coalesce(a.ledger_id, u.ledger_id) as ledger_id, coalesce(a.topic, l.topic) as topic,
       u.ledger_id is not null as marked, coalesce(a.bookies_away, 0) as bookies_away, a.lacking
from away a
full outer join underreplicated u on u.ledger_id = a.ledger_id
left join ledgers l on l.ledger_id = u.ledger_id
order by 1

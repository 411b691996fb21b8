-- Consumed ledgers, but none trimmed yet
-- Topics with ledgers that every subscription has consumed, and that have never trimmed a ledger: their first ledger is
-- as old as the topic, within a minute. A snapshot does not say whether retention still keeps these ledgers. Retention
-- has no effect only if `consumed_at_most_s`, the time since the first of them was closed, is above the retention time
-- that `mledger topics describe` shows, or `bytes` above the retention size; then nothing trims them.
with consumed as (
    select l.topic, l.managed_ledger, count(*) as ledgers, cast(sum(l.size) as bigint) as bytes,
           min(l.closed) as closed
    from ledger_sizes l
    join (select managed_ledger, min(from_ledger_id) as from_ledger_id from cursor_needs group by managed_ledger) n
      on n.managed_ledger = l.managed_ledger and l.ledger_id < n.from_ledger_id
    group by l.topic, l.managed_ledger
)
select c.topic, c.ledgers, c.bytes, unix_seconds(now.time) - unix_seconds(c.closed) as consumed_at_most_s
from consumed c
cross join snapshot now
join topics t on t.managed_ledger = c.managed_ledger
join ledgers b on b.ledger_id = t.first_ledger_id
where abs(unix_seconds(coalesce(b.ctime, b.created)) - unix_seconds(t.created)) <= 60
order by c.bytes desc, c.topic

-- Backlog of each subscription
-- Entries and payload bytes not acknowledged, and how long the oldest of them has waited: at most since its ledger was
-- created, at least since it was closed. Bytes are computed from the average entry of each ledger. Only bookies know
-- what an open ledger holds: `not_counted` names it, unless the snapshot was exported with `state=recovered`.
select s.topic, s.cursor, s.entries, s.bytes,
       unix_seconds(now.time) - unix_seconds(coalesce(b.ctime, b.created)) as waits_at_most_s,
       case when s.oldest_ledger_id is null then null
            else greatest(coalesce(unix_seconds(now.time) - unix_seconds(l.closed), 0), 0) end as waits_at_least_s,
       s.not_counted, s.state
from cursor_backlog s
cross join snapshot now
left join ledger_sizes l on l.managed_ledger = s.managed_ledger and l.ledger_id = s.oldest_ledger_id
left join ledgers b on b.ledger_id = s.oldest_ledger_id
order by s.entries desc, s.topic, s.cursor

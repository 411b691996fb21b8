-- Backlog of each subscription
-- Entries and payload bytes not acknowledged, and how long the oldest of them has waited: at most since its ledger was
-- created, at least since it was closed. Bytes are computed from the average entry of each ledger. Only bookies know
-- what an open ledger holds: `not_counted` names it, unless the snapshot was exported with `state=recovered`.
with per_ledger as (
    select c.topic, c.managed_ledger, c.cursor, c.state, c.backlog, l.ledger_id, l.entries, l.size, l.closed, l.unknown,
           greatest(l.entries
                    - case when l.ledger_id = c.mark_delete_ledger_id then c.mark_delete_entry_id + 1 else 0 end
                    - coalesce(a.entries, 0), 0) as left_over
    from cursors c
    left join ledger_sizes l on l.managed_ledger = c.managed_ledger and l.ledger_id >= c.mark_delete_ledger_id
    left join acknowledged_above a
      on a.managed_ledger = c.managed_ledger and a.cursor = c.cursor and a.ledger_id = l.ledger_id
),
summed as (
    select topic, managed_ledger, cursor, max(state) as state,
           cast(coalesce(max(backlog), sum(left_over)) as bigint) as entries,
           cast(sum(case when entries > 0 then floor(cast(size as double) * left_over / entries) else 0 end) as bigint)
               as bytes,
           min(case when left_over > 0 then ledger_id end) as oldest_ledger_id,
           max(case when unknown then ledger_id end) as not_counted
    from per_ledger
    group by topic, managed_ledger, cursor
)
select s.topic, s.cursor, s.entries, s.bytes,
       unix_seconds(now.time) - unix_seconds(coalesce(b.ctime, b.created)) as waits_at_most_s,
       case when s.oldest_ledger_id is null then null
            else greatest(coalesce(unix_seconds(now.time) - unix_seconds(l.closed), 0), 0) end as waits_at_least_s,
       s.not_counted, s.state
from summed s
cross join snapshot now
left join ledger_sizes l on l.managed_ledger = s.managed_ledger and l.ledger_id = s.oldest_ledger_id
left join ledgers b on b.ledger_id = s.oldest_ledger_id
order by s.entries desc, s.topic, s.cursor

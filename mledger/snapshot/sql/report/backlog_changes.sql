-- Backlogs that changed most
-- Subscriptions whose backlog in the older snapshot was another; one that is in only one of them has 0 in the other.
with both_of as (
    select coalesce(n.topic, o.topic) as topic, coalesce(n.cursor, o.cursor) as cursor,
           coalesce(o.entries, 0) as entries_before, coalesce(n.entries, 0) as entries,
           coalesce(o.bytes, 0) as bytes_before, coalesce(n.bytes, 0) as bytes
    from cursor_backlog n
    full outer join before_cursor_backlog o on o.managed_ledger = n.managed_ledger and o.cursor = n.cursor
)
select topic, cursor, entries_before, entries, entries - entries_before as entries_change,
       bytes - bytes_before as bytes_change
from both_of
where entries <> entries_before
order by abs(entries - entries_before) desc, topic, cursor

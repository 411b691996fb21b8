-- Cursors with the most holes
-- Subscriptions with entries acknowledged above their mark-delete: the number of ranges, of entries in them, and of
-- entries with a partially acknowledged batch. Each range is written again whenever the cursor is persisted.
select c.topic, c.cursor, c.holes, cast(coalesce(sum(a.entries), 0) as bigint) as entries, c.partial_batches, c.state
from cursors c
left join acknowledged_above a on a.managed_ledger = c.managed_ledger and a.cursor = c.cursor
where c.holes > 0 or c.partial_batches > 0
group by c.topic, c.cursor, c.holes, c.partial_batches, c.state
order by c.holes desc, c.topic, c.cursor

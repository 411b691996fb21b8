-- Subscriptions
-- Entries and payload bytes not acknowledged. `not_counted` names an open ledger, of which only bookies know what it
-- holds.
select t.namespace, b.topic, b.cursor, b.entries, b.bytes, cast(c.holes as bigint) as holes, b.not_counted, b.state,
       row_number() over (partition by t.namespace order by b.entries desc, b.bytes desc, b.topic, b.cursor) as place
from cursor_backlog b
join topics t on t.managed_ledger = b.managed_ledger
join cursors c on c.managed_ledger = b.managed_ledger and c.cursor = b.cursor
order by t.namespace, place

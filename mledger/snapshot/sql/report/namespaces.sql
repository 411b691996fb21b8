-- Namespaces
-- The topics of each namespace with the backlog of all their subscriptions, their payload bytes and ledgers, and the
-- holes of their cursors.
select namespace, count(*) as topics, cast(sum(cursors) as bigint) as subscriptions,
       cast(sum(backlog) as bigint) as backlog, cast(sum(bytes) as bigint) as bytes,
       cast(sum(ledgers) as bigint) as ledgers, cast(sum(holes) as bigint) as holes
from topic_figures
group by namespace
order by backlog desc, bytes desc, namespace

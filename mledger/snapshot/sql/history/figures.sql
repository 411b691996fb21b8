-- The figures of each namespace
-- One row for each topic of `largest_topics`, and one for all other topics of a namespace, whose `topic` is null.
select f.tenant, f.namespace, w.topic, count(*) as topics, cast(sum(f.backlog) as bigint) as backlog,
       cast(sum(f.bytes) as bigint) as bytes, cast(sum(f.ledgers) as bigint) as ledgers,
       cast(sum(f.holes) as bigint) as holes
from topic_figures f
left join largest_topics w on w.topic = f.topic
group by f.tenant, f.namespace, w.topic
order by f.tenant, f.namespace, w.topic

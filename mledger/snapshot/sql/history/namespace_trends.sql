-- Trends of each namespace
-- Each namespace's figures in every snapshot.
select namespace, time, cast(sum(topics) as bigint) as topics, cast(sum(backlog) as bigint) as backlog,
       cast(sum(bytes) as bigint) as bytes, cast(sum(ledgers) as bigint) as ledgers, cast(sum(holes) as bigint) as holes
from history
group by namespace, time
order by namespace, time

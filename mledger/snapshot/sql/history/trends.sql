-- Trends by tenant, namespace and topic
-- For each level and figure the five that are largest in the newest snapshot, by their `place`, and the sum of all
-- others, whose name is null; `history` has the rows of `figures` of every snapshot, with its time.
with named as (
    select 'tenant' as level, tenant as name, time, backlog, bytes, ledgers, holes from history
    union all
    select 'namespace' as level, namespace as name, time, backlog, bytes, ledgers, holes from history
    union all
    select 'topic' as level, topic as name, time, backlog, bytes, ledgers, holes from history
),
measured as (
    select level, name, time, 'backlog' as figure, backlog as value from named
    union all
    select level, name, time, 'bytes' as figure, bytes as value from named
    union all
    select level, name, time, 'ledgers' as figure, ledgers as value from named
    union all
    select level, name, time, 'holes' as figure, holes as value from named
),
summed as (
    select level, figure, name, time, cast(sum(value) as bigint) as value
    from measured
    group by level, figure, name, time
),
ranked as (
    select level, figure, name, row_number() over (partition by level, figure order by value desc, name) as place
    from summed
    where name is not null and value > 0 and time = (select max(time) from history)
)
select s.level, s.figure, r.name, r.place, s.time, cast(sum(s.value) as bigint) as value
from summed s
left join ranked r on r.level = s.level and r.figure = s.figure and r.name = s.name and r.place <= 5
group by s.level, s.figure, r.name, r.place, s.time
order by s.level, s.figure, coalesce(r.place, 6), s.time

-- The largest topics
-- Those among the five largest by at least one figure.
with ranked as (
    select topic,
           row_number() over (order by backlog desc, topic) as by_backlog,
           row_number() over (order by bytes desc, topic) as by_bytes,
           row_number() over (order by ledgers desc, topic) as by_ledgers,
           row_number() over (order by holes desc, topic) as by_holes
    from topic_figures
)
select topic from ranked where least(by_backlog, by_bytes, by_ledgers, by_holes) <= 5 order by topic

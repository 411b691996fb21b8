-- Topics
-- The largest backlogs come first.
select namespace, topic, cursors as subscriptions, backlog, bytes, ledgers, holes,
       row_number() over (partition by namespace order by backlog desc, bytes desc, topic) as place
from topic_figures
order by namespace, place

-- Topics without subscriptions
-- No subscription reads them; only retention decides when their ledgers are trimmed.
select t.topic, t.ledgers, t.entries, t.size as bytes, unix_seconds(now.time) - unix_seconds(t.created) as age_s
from topics t
cross join snapshot now
where t.cursors = 0
order by bytes desc, t.topic

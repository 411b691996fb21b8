-- Topics without subscriptions
-- No subscription reads them; only retention decides when their ledgers are trimmed. Readers may: they have no
-- subscription that is stored. Pulsar's own topics, and shadows, whose ledgers are their sources', are left out.
select t.topic, t.ledgers, t.entries, t.size as bytes, unix_seconds(now.time) - unix_seconds(t.created) as age_s
from topics t
cross join snapshot now
where t.cursors = 0
  and t.properties['PULSAR.SHADOW_SOURCE'] is null
  and coalesce(t.namespace, '') <> 'pulsar/system'
  and substring(regexp_extract(coalesce(t.partitioned_topic, t.topic), '[^/]*$', 0), 1, 2) <> '__'
order by bytes desc, t.topic

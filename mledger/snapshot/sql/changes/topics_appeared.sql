-- Topics that appeared
select n.topic, n.ledgers, n.entries, n.cursors from topics n
where not exists (select 1 from before_topics o where o.managed_ledger = n.managed_ledger)
order by n.topic

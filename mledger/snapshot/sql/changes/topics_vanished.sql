-- Topics that vanished
select o.topic, o.ledgers, o.entries, o.cursors from before_topics o
where not exists (select 1 from topics n where n.managed_ledger = o.managed_ledger)
order by o.topic

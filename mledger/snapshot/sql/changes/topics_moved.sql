-- Topics whose ledgers changed
select n.topic, o.first_ledger_id as first_ledger_before, n.first_ledger_id, o.last_ledger_id as last_ledger_before,
       n.last_ledger_id, o.entries as entries_before, n.entries
from topics n
join before_topics o on o.managed_ledger = n.managed_ledger
where coalesce(n.first_ledger_id, -1) <> coalesce(o.first_ledger_id, -1)
   or coalesce(n.last_ledger_id, -1) <> coalesce(o.last_ledger_id, -1)
   or n.entries <> o.entries
order by n.topic

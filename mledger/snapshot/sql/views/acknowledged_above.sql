-- Entries that a cursor has acknowledged above its mark-delete, by ledger. Partially acknowledged batches do not count.
select h.managed_ledger, h.cursor, l.ledger_id,
       cast(sum(greatest(
           least(case when l.ledger_id = h.upper_ledger_id then h.upper_entry_id else l.entries - 1 end, l.entries - 1)
           - case when l.ledger_id = h.lower_ledger_id then greatest(h.lower_entry_id, -1) else -1 end, 0)) as bigint)
           as entries
from cursor_holes h
join ledger_sizes l
  on l.managed_ledger = h.managed_ledger and l.ledger_id >= h.lower_ledger_id and l.ledger_id <= h.upper_ledger_id
where h.ack_set is null
group by h.managed_ledger, h.cursor, l.ledger_id

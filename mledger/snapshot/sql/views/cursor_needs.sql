-- The first ledger that a cursor protects from trimming: that of the entry after its mark-delete, or the topic's last.
select c.topic, c.managed_ledger, c.cursor,
       coalesce(
           min(case when l.entries > case when l.ledger_id = c.mark_delete_ledger_id
                                          then least(c.mark_delete_entry_id, 1125899906842624) + 1 else 0 end
                    or l.unknown then l.ledger_id end),
           max(t.last_ledger_id)) as from_ledger_id,
       max(t.last_ledger_id) as last_ledger_id
from cursors c
join topics t on t.managed_ledger = c.managed_ledger
left join ledger_sizes l on l.managed_ledger = c.managed_ledger and l.ledger_id >= c.mark_delete_ledger_id
group by c.topic, c.managed_ledger, c.cursor

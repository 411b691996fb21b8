-- Cursors that appeared
select n.topic, n.cursor, n.mark_delete_ledger_id, n.mark_delete_entry_id from cursors n
where not exists (select 1 from before_cursors o where o.managed_ledger = n.managed_ledger and o.cursor = n.cursor)
order by n.topic, n.cursor

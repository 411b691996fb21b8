-- Cursors that vanished
select o.topic, o.cursor, o.mark_delete_ledger_id, o.mark_delete_entry_id from before_cursors o
where not exists (select 1 from cursors n where n.managed_ledger = o.managed_ledger and n.cursor = o.cursor)
order by o.topic, o.cursor

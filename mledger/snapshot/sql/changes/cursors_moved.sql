-- Cursors that went forward
select topic, cursor, ledger_before, entry_before, ledger_id, entry_id, told_by from cursor_moves
where ledger_id > ledger_before or (ledger_id = ledger_before and entry_id > entry_before)
order by topic, cursor

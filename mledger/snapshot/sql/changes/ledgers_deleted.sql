-- Ledgers deleted
select o.ledger_id, o.topic, o.cursor, o.length from before_ledgers o
where not exists (select 1 from ledgers n where n.ledger_id = o.ledger_id)
order by o.ledger_id

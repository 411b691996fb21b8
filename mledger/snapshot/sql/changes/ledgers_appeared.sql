-- Ledgers that appeared
select n.ledger_id, n.topic, n.cursor, n.state from ledgers n
where not exists (select 1 from before_ledgers o where o.ledger_id = n.ledger_id)
order by n.ledger_id

-- Topics whose size changed most
-- Topics whose payload bytes in the older snapshot were others; one that is in only one of them has 0 in the other.
with both_of as (
    select coalesce(n.topic, o.topic) as topic,
           coalesce(o.bytes, 0) as bytes_before, coalesce(n.bytes, 0) as bytes,
           coalesce(o.ledgers, 0) as ledgers_before, coalesce(n.ledgers, 0) as ledgers
    from topic_figures n
    full outer join before_topic_figures o on o.managed_ledger = n.managed_ledger
)
select topic, bytes_before, bytes, bytes - bytes_before as bytes_change, ledgers - ledgers_before as ledgers_change
from both_of
where bytes <> bytes_before
order by abs(bytes - bytes_before) desc, topic

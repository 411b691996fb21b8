-- What each ledger of a topic's list holds: as its bookies report it if they were read, else as recorded (0 while open).
select topic, managed_ledger, ledger_id, closed,
       coalesce(seen_entries, entries) as entries,
       coalesce(seen_size, size) as size,
       closed is null and seen_entries is null as unknown, offload_complete is not null as offloaded
from topic_ledgers

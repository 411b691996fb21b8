-- What each ledger of a topic's list holds: as its bookies report it if they were read, else as recorded (0 while open).
-- A number counts as at most 2^50: damaged records have numbers whose sums no column could hold.
select topic, managed_ledger, ledger_id, closed,
       least(greatest(coalesce(seen_entries, entries), 0), 1125899906842624) as entries,
       least(greatest(coalesce(seen_size, size), 0), 1125899906842624) as size,
       closed is null and seen_entries is null as unknown, offload_complete is not null as offloaded
from topic_ledgers

-- Bookies that changed
select coalesce(n.bookie_id, o.bookie_id) as bookie_id, o.state as state_before, n.state
from bookies n
full outer join before_bookies o on o.bookie_id = n.bookie_id
where coalesce(n.state, '') <> coalesce(o.state, '')
order by 1

-- Stuck cursors
-- Subscriptions whose mark-delete has not moved since the older snapshot, while the topic grew. `certain` is false if
-- either row shows the older state in the znode, because the newer one is in a cursor ledger: compare snapshots exported
-- with `state=recovered`.
with grown as (
    select n.managed_ledger, n.entries - o.entries as entries, n.last_ledger_id > o.last_ledger_id as rolled
    from (select managed_ledger,
                 cast(sum(least(coalesce(seen_entries, entries), 1125899906842624)) as bigint) as entries,
                 max(ledger_id) as last_ledger_id from topic_ledgers group by managed_ledger) n
    join (select managed_ledger,
                 cast(sum(least(coalesce(seen_entries, entries), 1125899906842624)) as bigint) as entries,
                 max(ledger_id) as last_ledger_id from before_topic_ledgers group by managed_ledger) o
      on o.managed_ledger = n.managed_ledger
)
select n.topic, n.cursor, n.mark_delete_ledger_id, n.mark_delete_entry_id, greatest(g.entries, 0) as entries_added,
       unix_seconds(now.time) - unix_seconds(past.time) as between_s,
       n.state in ('znode', 'recovered') and o.state in ('znode', 'recovered') as certain
from cursors n
join before_cursors o on o.managed_ledger = n.managed_ledger and o.cursor = n.cursor
join grown g on g.managed_ledger = n.managed_ledger
cross join snapshot now
cross join before_snapshot past
where n.mark_delete_ledger_id = o.mark_delete_ledger_id
  and n.mark_delete_entry_id = o.mark_delete_entry_id
  and (g.entries > 0 or g.rolled)
order by entries_added desc, n.topic, n.cursor

-- The old and new position of each cursor: as recovered if both snapshots have that, else as its znode has it.
with pairs as (
    select n.topic, n.cursor, n.state = 'recovered' and o.state = 'recovered' as recovered,
           o.mark_delete_ledger_id as found_ledger_before, o.mark_delete_entry_id as found_entry_before,
           o.snapshot_ledger_id as znode_ledger_before, o.snapshot_entry_id as znode_entry_before,
           n.mark_delete_ledger_id as found_ledger, n.mark_delete_entry_id as found_entry,
           n.snapshot_ledger_id as znode_ledger, n.snapshot_entry_id as znode_entry
    from cursors n
    join before_cursors o on o.managed_ledger = n.managed_ledger and o.cursor = n.cursor
)
select topic, cursor,
       case when recovered then found_ledger_before else znode_ledger_before end as ledger_before,
       case when recovered then found_entry_before else znode_entry_before end as entry_before,
       case when recovered then found_ledger else znode_ledger end as ledger_id,
       case when recovered then found_entry else znode_entry end as entry_id,
       case when recovered then 'recovered' else 'znode' end as told_by
from pairs

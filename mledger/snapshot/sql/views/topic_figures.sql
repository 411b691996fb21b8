-- The figures of each topic: backlog of all its subscriptions, payload bytes, ledgers, and holes of its cursors.
select t.tenant, t.namespace, t.topic, t.managed_ledger,
       coalesce(c.cursors, 0) as cursors,
       coalesce(c.backlog, 0) as backlog,
       coalesce(s.bytes, 0) as bytes,
       cast(coalesce(t.ledgers, 0) as bigint) as ledgers,
       coalesce(h.holes, 0) as holes
from topics t
left join (
    select managed_ledger, count(*) as cursors, cast(sum(entries) as bigint) as backlog
    from cursor_backlog group by managed_ledger
) c on c.managed_ledger = t.managed_ledger
left join (
    select managed_ledger, cast(sum(size) as bigint) as bytes from ledger_sizes group by managed_ledger
) s on s.managed_ledger = t.managed_ledger
left join (
    select managed_ledger, cast(sum(holes) as bigint) as holes from cursors group by managed_ledger
) h on h.managed_ledger = t.managed_ledger

-- Bytes that trimming would free
-- For each topic the closed ledgers that every subscription has consumed and that the retention of its namespace no
-- longer keeps: what trimming deletes, from the oldest ledger on. A topic without subscriptions needs none; one of whose
-- subscriptions, or whose namespace's policies, cannot be read keeps all. Metadata has neither the policies of single
-- topics nor the settings of brokers: a namespace without retention counts as one that keeps nothing, as Pulsar's
-- default does. `mledger topics trim --dry-run` looks at all of it. `disk_bytes` counts every copy.
with needed as (
    select t.topic, t.namespace, t.managed_ledger, t.last_ledger_id,
           coalesce(min(n.from_ledger_id), max(t.last_ledger_id)) as from_ledger_id
    from topics t
    left join cursor_needs n on n.managed_ledger = t.managed_ledger
    where t.properties['PULSAR.SHADOW_SOURCE'] is null
      and not exists (
          select 1 from errors e where e.kind = 'namespace' and e.path = '/admin/policies/' || t.namespace)
      and (regexp_extract(coalesce(t.partitioned_topic, t.topic), '[^/]*$', 0) not in
               ('__change_events', '__transaction_buffer_snapshot', '__transaction_buffer_snapshot_indexes',
                '__transaction_buffer_snapshot_segments')
           or exists (select 1 from cursors c where c.managed_ledger = t.managed_ledger and c.cursor = '__compaction'))
    group by t.topic, t.namespace, t.managed_ledger, t.last_ledger_id
), sized as (
    select l.managed_ledger, l.ledger_id, l.size, l.closed, l.offloaded,
           sum(l.size) over (partition by l.managed_ledger order by l.ledger_id desc) - l.size as size_after
    from ledger_sizes l
), judged as (
    select n.topic, s.managed_ledger, s.ledger_id, s.size, p.retention_minutes, p.retention_mb,
           s.closed is null or s.ledger_id >= n.from_ledger_id or s.ledger_id >= n.last_ledger_id
           or s.offloaded
           or not ((coalesce(p.retention_minutes, 0) >= 0
                    and unix_seconds(now.time) - unix_seconds(s.closed) > cast(coalesce(p.retention_minutes, 0) as double) * 60)
                   or (coalesce(p.retention_mb, 0) >= 0
                       and s.size_after >= cast(coalesce(p.retention_mb, 0) as double) * 1048576)) as stays
    from sized s
    cross join snapshot now
    join needed n on n.managed_ledger = s.managed_ledger
    left join namespaces p on p.namespace = n.namespace
), prefixes as (
    select j.*, min(case when j.stays then j.ledger_id end) over (partition by j.managed_ledger) as first_kept
    from judged j
)
select p.topic, count(*) as ledgers, cast(sum(p.size) as bigint) as bytes,
       cast(sum(p.size * least(coalesce(b.write_quorum, 1), 64)) as bigint) as disk_bytes,
       max(p.retention_minutes) as retention_minutes, max(p.retention_mb) as retention_mb
from prefixes p
left join ledgers b on b.ledger_id = p.ledger_id
where p.first_kept is null or p.ledger_id < p.first_kept
group by p.topic
order by disk_bytes desc, p.topic

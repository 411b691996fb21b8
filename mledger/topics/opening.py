"""Opens a topic as its owner (M3): recovers its last ledgers, adds one for writing, loads cursors (R11)."""

import asyncio
import contextlib

import numpy as np  # noqa: F401  # the bookie client's: an owner loads it before it fences, not at its first answers

from mledger.admin.policies.bookie_affinity import read_affinity
from mledger.admin.policies.quorums import with_cluster_quorums
from mledger.admin.policies.trim_policy import TrimPolicy
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.errors import BookieError, NoSuchLedger
from mledger.config import ManagedLedgerConfig
from mledger.errors import ManagedLedgerFenced
from mledger.events import EventSink, LedgerCreated, LedgerMissing, LedgerRecovered, Opening, ignore_events
from mledger.ledgers.ledger_factory import LedgerFactory, StepHook, ignore_steps
from mledger.ledgers.ledger_list import (
    LedgerEnd,
    LedgerList,
    OpenPlan,
    check_possible,
    ledgers_to_recover,
    plan_open,
)
from mledger.ledgers.ownership import Ownership
from mledger.ledgers.retention import TopicPolicies
from mledger.ledgers.shadow_topics import refuse_shadow
from mledger.ledgers.topic_record import RecordChange, TopicRecord
from mledger.metastore.errors import MetadataError, NodeTooLarge
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import Operation
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.services.topic_services import Services
from mledger.topics.state import OpenedTopic
from mledger.topics.topic_configuration import plan_config

log = get_logger(__name__)

ATTEMPTS = 4


async def open_managed_ledger(
    services: Services,
    name: str,
    config: ManagedLedgerConfig,
    *,
    trim: bool | None = None,
    cluster_quorums: bool = False,
    config_given: bool = True,
    emit: EventSink = ignore_events,
    on_step: StepHook = ignore_steps,
    record: TopicRecord | None = None,
) -> ManagedLedger:
    """Open the managed ledger `name`; it accepts entries on return, while its cursors are recovered.

    `trim` as in `TrimPolicy`; `cluster_quorums`: new ledgers have the quorums that the cluster
    configures for the topic (M6). Without it they are those of `config`, unless the cluster follows
    policies that set others. `record` is the topic's if it was read just now.

    Fences the last ledger's writer and claims the owner node. If another owner writes the record at
    the same time, the open starts over, a bounded number of times. Raises TopicNotFound,
    ShadowTopic, ManagedLedgerFenced, RecordError, InvalidLedgerList, and errors of the recovery of
    the last ledger or of the creation of a new one.
    """
    emit(Opening(name))
    await services.prepare()
    store = services.store
    if record is None:
        record = await TopicRecord.read(store, name, timeout_s=config.metadata_operations_timeout_s)
    refuse_shadow(name, record.info)
    check_possible(ledgers_to_recover(record.info), record.path)
    policies = await services.followed_policies.read(name)
    if cluster_quorums:
        config = await with_cluster_quorums(config, services.policies, services.bookkeeper, name, record.info.ledgers)
    base_config = config  # with the quorums of the last ledger: they hold where later policies set none
    config = plan_config(config, policies or TopicPolicies())
    placed = asyncio.ensure_future(read_affinity(store, name, strict=config.strict_bookie_affinity))
    try:
        ownership = await Ownership.claim(store, name, services.owner_nodes)  # the groups are read in its round trip
    except BaseException:
        placed.cancel()
        raise
    try:
        counters = services.counters.of(name)
        factory = LedgerFactory(services.bookkeeper, store, name, config, on_step, counters, await placed)
        for attempt in range(ATTEMPTS):
            try:
                ledgers, writer, dropped = await _take_over(record, factory, emit, services.now_ms())
                break
            except ManagedLedgerFenced:
                if attempt == ATTEMPTS - 1 or await ownership.lost_to() is not None:
                    raise
                record = await TopicRecord.read(store, name, timeout_s=config.metadata_operations_timeout_s)
    except BaseException:
        await services.owner_nodes.release(ownership)
        raise
    policy = TrimPolicy(services.policies, store, name, config, trim, given=config_given)
    opened = OpenedTopic(
        services,
        record,
        factory,
        ownership,
        config,
        ledgers,
        writer,
        dropped,
        emit,
        policy,
        base_config,
        policies,
    )
    managed_ledger = ManagedLedger(opened)
    try:
        await managed_ledger.start()
    except BaseException:
        await managed_ledger.abandon()
        raise
    return managed_ledger


async def _take_over(
    record: TopicRecord, factory: LedgerFactory, emit: EventSink, now_ms: int
) -> tuple[LedgerList, LedgerWriter | None, tuple[int, ...]]:
    """Carry out `plan_open`; returns the new list, its current ledger's writer and the ledgers to delete."""
    wanted = ledgers_to_recover(record.info)
    found = await asyncio.gather(*(_true_end(factory, ledger_id) for ledger_id in wanted))
    ends = dict(zip(wanted, found, strict=True))
    plan = plan_open(record.info, ends, now_ms)
    _emit_plan(record.name, plan, ends, emit)
    writer = await factory.create_data_ledger(plan.above) if plan.create else None
    new_id = None if writer is None else writer.ledger_id
    deletions = tuple(factory.deletion(ledger.ledger_id) for ledger in plan.dropped)
    also: tuple[Operation, ...] = () if writer is None else (factory.listed(writer.ledger_id),)
    factory.on_step("list ledger")
    try:
        if writer is None:  # else its creation has shown this session's server what was written before
            await factory.sync()
        await record.check_same()  # the topic may have been deleted and created again since it was read
        await record.update(lambda _: RecordChange(plan.info(new_id), also, deletions))
    except BaseException as error:
        if writer is not None and isinstance(error, ManagedLedgerFenced | NodeTooLarge) and not record.session_ended:
            with contextlib.suppress(BookieError, MetadataError):
                await factory.discard(writer)
        elif writer is not None:  # it may be listed: the next open finds out
            await writer.abandon()
        raise
    if writer is not None:
        factory.settled(writer.ledger_id)
        emit(LedgerCreated(record.name, writer.ledger_id))
    factory.on_step("ledger listed")
    return plan.ledgers(new_id), writer, tuple(ledger.ledger_id for ledger in plan.dropped)


async def _true_end(factory: LedgerFactory, ledger_id: int) -> LedgerEnd | None:
    try:
        reader = await factory.open(ledger_id)
    except NoSuchLedger:
        return None
    return LedgerEnd(reader.last_entry + 1, reader.length)


def _emit_plan(name: str, plan: OpenPlan, ends: dict[int, LedgerEnd | None], emit: EventSink) -> None:
    for ledger_id in plan.missing:
        emit(LedgerMissing(name, ledger_id))
    for ledger in plan.kept:
        if ledger.ledger_id in ends:
            emit(LedgerRecovered(name, ledger.ledger_id, ledger.entries, ledger.size))

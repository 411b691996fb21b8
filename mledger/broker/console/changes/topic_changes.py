"""Changes of a topic: unload, trim, truncate, terminate, delete, and a new subscription."""

from collections.abc import Mapping, Sequence
from typing import Any

from mledger.broker.admin_rest.refusals import bad_request, conflict
from mledger.broker.console.admin_client import PlannedRequest, at_subscription, at_topic
from mledger.broker.console.changes.change_plan import (
    CHECK,
    CHOICE,
    ChangeAsked,
    ChangeEffect,
    ChangeField,
    ChangePlan,
    ChangeSubject,
    OfferedChange,
    counted,
)
from mledger.broker.console.cursor_view import TERMINATED, plan_ledgers, plan_positions
from mledger.broker.console.stored_topic import StoredTopicReader
from mledger.cursors.compaction import why_never_trimmed
from mledger.cursors.positions import EARLIEST, LATEST
from mledger.ledgers.retention import KEEP_ALL
from mledger.ledgers.trim_plan import TrimPlan, plan_trim
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from mledger.metastore.runtime.name_lists import shorten

LEDGERS_NAMED = 20
Figures = Mapping[str, Any]


def plan_unloaded(topic: TopicName, stats: Figures) -> ChangePlan:
    """The plan to close a topic here."""
    return ChangePlan(
        f"Unload {topic}",
        (ChangeEffect("open topic", "with what is in memory", "closed; the next client or request opens it again"),),
        _disconnected(stats, "look the topic up again, and go on"),
        PlannedRequest("PUT", at_topic(topic, "unload")),
    )


def plan_terminated(topic: TopicName, internal: Figures, stats: Figures) -> ChangePlan:
    """The plan to end a topic."""
    if internal["state"] == TERMINATED:
        end = ChangeEffect("end", internal["lastConfirmedEntry"], internal["lastConfirmedEntry"])
        return ChangePlan(f"Terminate {topic}", (end,), ("the topic is terminated already",))
    return ChangePlan(
        f"Terminate {topic}",
        (
            ChangeEffect("end of the topic", "open", f"the last entry then; now {internal['lastConfirmedEntry']}"),
            ChangeEffect("producers", counted(len(stats["publishers"]), "producer"), "none, for good"),
        ),
        ("a terminated topic never accepts messages again; consumers get what is stored",),
        PlannedRequest("POST", at_topic(topic, "terminate")),
    )


def plan_truncated(topic: TopicName, internal: Figures) -> ChangePlan:
    """The plan to acknowledge everything on every subscription and to delete the closed ledgers."""
    ledgers = plan_ledgers(internal)
    positions, end = plan_positions(internal), ledgers.last_confirmed
    trim = plan_trim(ledgers, dict.fromkeys(positions, end), KEEP_ALL, 0, through=end)
    moved = [
        ChangeEffect(f"mark-delete of {name}", str(position), f"the last entry then; now {end}")
        for name, position in sorted(positions.items())
        if position < end
    ]
    return ChangePlan(
        f"Truncate {topic}",
        (*moved, *_deletions(trim)),
        ("every subscription loses its backlog, and the entries of the deleted ledgers are gone",),
        PlannedRequest("DELETE", at_topic(topic, "truncate")) if moved or trim.deletions else None,
        exact=_ids(trim.deletions),
    )


def plan_trimmed(topic: TopicName, trim: TrimPlan) -> ChangePlan:
    """The plan to delete the ledgers that no subscription and no retention needs."""
    return ChangePlan(
        f"Trim {topic}",
        _deletions(trim),
        (f"the others stay: {trim.kept_because}",),
        PlannedRequest("POST", at_topic(topic, "trim")) if trim.deletions else None,
        exact=_ids(trim.deletions),
    )


def plan_deleted(topic: TopicName, internal: Figures, stats: Figures, *, force: bool) -> ChangePlan:
    """The plan to delete a topic that is not partitioned."""
    subscriptions = sorted(stats["subscriptions"])
    clients = len(stats["publishers"]) + sum(len(each["consumers"]) for each in stats["subscriptions"].values())
    entries = internal["numberOfEntries"]
    ledgers = [str(each["ledgerId"]) for each in internal["ledgers"]]
    effects = [
        ChangeEffect("entries", f"{entries:,}, {internal['totalSize']:,} bytes", "deleted"),
        ChangeEffect("ledgers", shorten(ledgers, LEDGERS_NAMED), "deleted"),
        ChangeEffect("subscriptions", shorten(subscriptions, LEDGERS_NAMED) or "none", "deleted"),
        ChangeEffect("schema", "if there is one", "deleted"),
    ]
    warnings = ["nothing of it can be brought back"]
    blocked = clients and not force
    if clients and force:
        warnings.append(
            f"{counted(clients, 'client')} will be disconnected; one that may create topics creates it anew"
        )
    return ChangePlan(
        f"Delete {topic}",
        tuple(effects),
        tuple(warnings),
        None if blocked else PlannedRequest("DELETE", at_topic(topic), {"force": str(force).lower()}),
        exact=(str(force), *subscriptions),
        obstacle=f"{counted(clients, 'client')} still connected: plan it even with clients" if blocked else "",
        most=0 if force else entries,
    )


def plan_deleted_whole(topic: TopicName, partitions: int, stats: Figures, *, force: bool) -> ChangePlan:
    """The plan to delete a partitioned topic."""
    subscriptions = sorted(stats["subscriptions"])
    return ChangePlan(
        f"Delete {topic}",
        (
            ChangeEffect("partitions", f"{partitions:,}, {stats.get('storageSize', 0):,} bytes", "deleted"),
            ChangeEffect("subscriptions", shorten(subscriptions, LEDGERS_NAMED) or "none", "deleted"),
            ChangeEffect("schema", "if there is one", "deleted"),
        ),
        ("nothing of it can be brought back", *_disconnected(stats, "find the topic gone")),
        PlannedRequest("DELETE", at_topic(topic, "partitions"), {"force": str(force).lower()}),
        exact=(str(force), str(partitions), *subscriptions),
    )


def plan_subscribed(topic: TopicName, name: str, start: str, stats: Figures, internal: Figures) -> ChangePlan:
    """The plan to create a subscription. AdminRefusal if there is one of the name."""
    if not name or len(name) > 500:
        raise bad_request("give a name")
    if name in stats["subscriptions"]:
        raise conflict(f"there is a subscription {name} already")
    first, end = start == "earliest", internal["lastConfirmedEntry"]
    backlog = internal["numberOfEntries"] if first else 0
    place = EARLIEST if first else LATEST
    return ChangePlan(
        f"Create {name}",
        (
            ChangeEffect("subscription", "none", name),
            ChangeEffect("it begins", "", "at the first entry" if first else f"after the last entry; now {end}"),
            ChangeEffect("backlog", "", counted(backlog, "entry", "entries") + " now"),
        ),
        ("from now on the topic keeps what this subscription has not acknowledged",),
        PlannedRequest("PUT", at_subscription(topic, name), None, _message_id(place)),
        exact=(name, start),
    )


def _message_id(place: Position) -> str:
    return "earliest" if place == EARLIEST else "latest"


def _disconnected(stats: Figures, what: str) -> tuple[str, ...]:
    consumers = sum(len(each["consumers"]) for each in stats["subscriptions"].values())
    clients = f"{counted(len(stats['publishers']), 'producer')} and {counted(consumers, 'consumer')}"
    return (f"{clients} {what}",) if consumers or stats["publishers"] else ()


def _deletions(trim: TrimPlan) -> tuple[ChangeEffect, ...]:
    if not trim.deletions:
        return (ChangeEffect("ledgers", "", "none is deleted"),)
    entries, size = sum(each.entries for each in trim.deletions), sum(each.size for each in trim.deletions)
    named = shorten([str(each.ledger_id) for each in trim.deletions], LEDGERS_NAMED)
    return (
        ChangeEffect("ledgers", named, "deleted"),
        ChangeEffect("stored entries", "", f"{counted(entries, 'entry', 'entries')} fewer, {size:,} bytes"),
    )


def _ids(infos: Sequence[LedgerInfo]) -> tuple[str, ...]:
    return tuple(str(each.ledger_id) for each in infos)


class TopicChanges:
    """Plans changes of topics; `reader` has their records and policies."""

    def __init__(self, reader: StoredTopicReader) -> None:
        self._reader = reader

    @property
    def kinds(self) -> tuple[OfferedChange, ...]:
        """Those of topics that are not partitioned, and of partitions."""
        start = ChangeField("start", "from the", CHOICE, "latest", ("latest", "earliest"))
        force = ChangeField("force", "even with clients", CHECK)
        return (
            OfferedChange(
                "subscribe",
                "Create a subscription",
                "It keeps what it has not acknowledged.",
                lambda subject: PlannedRequest("PUT", at_subscription(subject.the_topic, "any")),
                subscribe,
                (ChangeField("name", "name"), start),
            ),
            OfferedChange("unload", "Unload", "Close the topic here; clients look it up again.", _unload_right, unload),
            OfferedChange(
                "trim",
                "Trim",
                "Delete the ledgers that nothing needs.",
                _right("POST", "trim"),
                self.trim,
                removes=True,
            ),
            OfferedChange(
                "truncate",
                "Truncate",
                "Acknowledge everything everywhere, and delete the closed ledgers.",
                _right("DELETE", "truncate"),
                truncate,
                removes=True,
            ),
            OfferedChange(
                "terminate",
                "Terminate",
                "Accept no more messages, for good.",
                _right("POST", "terminate"),
                terminate,
                removes=True,
            ),
            OfferedChange(
                "delete", "Delete the topic", "With all it holds.", _delete_right, delete, (force,), removes=True
            ),
        )

    async def trim(self, asked: ChangeAsked) -> ChangePlan:
        """Delete the ledgers that nothing needs."""
        topic = asked.subject.the_topic
        internal = await asked.client.get(at_topic(topic, "internalStats"))
        ledgers = plan_ledgers(internal, await self._reader.closed_ms(topic))
        retention = await self._reader.retention(topic)
        positions = plan_positions(internal)
        never = why_never_trimmed(topic, positions)
        return plan_trimmed(topic, plan_trim(ledgers, positions, retention, asked.now_ms, never=never))


async def unload(asked: ChangeAsked) -> ChangePlan:
    """Close a topic."""
    topic = asked.subject.the_topic
    return plan_unloaded(topic, await asked.client.get(at_topic(topic, "stats")))


async def terminate(asked: ChangeAsked) -> ChangePlan:
    """End a topic."""
    topic = asked.subject.the_topic
    internal = await asked.client.get(at_topic(topic, "internalStats"))
    return plan_terminated(topic, internal, await asked.client.get(at_topic(topic, "stats")))


async def truncate(asked: ChangeAsked) -> ChangePlan:
    """Empty a topic."""
    topic = asked.subject.the_topic
    return plan_truncated(topic, await asked.client.get(at_topic(topic, "internalStats")))


async def delete(asked: ChangeAsked) -> ChangePlan:
    """Delete a topic."""
    topic, force = asked.subject.the_topic, asked.values.get("force") == "on"
    internal = await asked.client.get(at_topic(topic, "internalStats"))
    return plan_deleted(topic, internal, await asked.client.get(at_topic(topic, "stats")), force=force)


async def delete_whole(asked: ChangeAsked) -> ChangePlan:
    """Delete a partitioned topic."""
    topic, force = asked.subject.the_topic, asked.values.get("force") == "on"
    partitions = (await asked.client.get(at_topic(topic, "partitions")))["partitions"]
    stats = await asked.client.get(at_topic(topic, "partitioned-stats"))
    return plan_deleted_whole(topic, partitions, stats, force=force)


async def subscribe(asked: ChangeAsked) -> ChangePlan:
    """Create a subscription."""
    topic, start = asked.subject.the_topic, asked.values.get("start", "latest")
    internal = await asked.client.get(at_topic(topic, "internalStats"))
    stats = await asked.client.get(at_topic(topic, "stats"))
    return plan_subscribed(topic, asked.values.get("name", "").strip(), start, stats, internal)


def _right(method: str, what: str) -> Any:
    return lambda subject: PlannedRequest(method, at_topic(subject.the_topic, what))


def _unload_right(subject: ChangeSubject) -> PlannedRequest:
    return PlannedRequest("PUT", at_topic(subject.the_topic, "unload"))


def _delete_right(subject: ChangeSubject) -> PlannedRequest:
    return PlannedRequest("DELETE", at_topic(subject.the_topic))


def _delete_whole_right(subject: ChangeSubject) -> PlannedRequest:
    return PlannedRequest("DELETE", at_topic(subject.the_topic, "partitions"))


WHOLE_TOPIC_CHANGES = (
    OfferedChange(
        "delete",
        "Delete the topic",
        "With all partitions and all they hold.",
        _delete_whole_right,
        delete_whole,
        (ChangeField("force", "even with clients", CHECK),),
        removes=True,
    ),
)

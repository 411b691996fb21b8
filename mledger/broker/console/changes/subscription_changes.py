"""Changes of a subscription: skip, clear, expire, reset, delete.

What a skip, a clear or an expiry acknowledges ends at a position that the plan names. It is carried out up to that
position: messages that arrive meanwhile stay.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mledger.broker.admin_rest.refusals import bad_request, not_found
from mledger.broker.console.admin_client import PlannedRequest, at_subscription, at_topic
from mledger.broker.console.changes.change_plan import (
    CHECK,
    NUMBER,
    ChangeAsked,
    ChangeEffect,
    ChangeField,
    ChangePlan,
    ChangeSubject,
    OfferedChange,
    counted,
)
from mledger.broker.console.cursor_view import plan_cursor, plan_ledgers
from mledger.cursors.plans import (
    CursorMovePlan,
    plan_clear_backlog,
    plan_expire_through,
    plan_reset_to,
    plan_skip,
)
from mledger.cursors.positions import EARLIEST
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import utc_text

MOST_SKIPPED = 1_000_000_000
MOST_SECONDS = 100 * 365 * 86_400


def plan_acknowledged(title: str, subject: ChangeSubject, move: CursorMovePlan, target: Position) -> ChangePlan:
    """The plan to acknowledge everything up to `target`."""
    request = PlannedRequest(
        "POST", at_subscription(subject.the_topic, subject.subscription, "expireMessages"), None, _message_id(target)
    )
    lost = counted(move.acknowledged, "entry", "entries")
    return ChangePlan(
        title,
        (
            ChangeEffect("acknowledged without being consumed", "", lost if move.changed else "nothing"),
            *_place_effects(move),
        ),
        request=request if move.changed else None,
        target=str(target),
        exact=(str(target),),
        most=move.acknowledged,
    )


def plan_moved(subject: ChangeSubject, move: CursorMovePlan, target: Position, consumers: int) -> ChangePlan:
    """The plan to continue at `target`."""
    effects = [ChangeEffect("the next message that is delivered", str(move.before.read_position), str(target))]
    if move.acknowledged < 0:
        effects.append(ChangeEffect("delivered again", "", counted(-move.acknowledged, "entry", "entries")))
    if move.acknowledged > 0:
        effects.append(ChangeEffect("never delivered", "", counted(move.acknowledged, "entry", "entries")))
    why = f"{counted(consumers, 'consumer')} will be disconnected; clients connect again by themselves"
    return ChangePlan(
        f"Reset {subject.subscription} to {target}",
        (*effects, *_place_effects(move)),
        (why,) if consumers and move.changed else (),
        PlannedRequest(
            "POST", at_subscription(subject.the_topic, subject.subscription, "resetcursor"), None, _message_id(target)
        )
        if move.changed
        else None,
        target=str(target),
        exact=(str(target),),
        most=max(0, move.acknowledged),
    )


def plan_dropped(subject: ChangeSubject, figures: Mapping[str, Any], *, force: bool) -> ChangePlan:
    """The plan to delete a subscription with these figures."""
    consumers = [each["consumerName"] for each in figures["consumers"]]
    blocked = consumers and not force
    effects = [
        ChangeEffect("subscription", subject.subscription, "deleted"),
        ChangeEffect("backlog that only it keeps", counted(figures["msgBacklog"], "entry", "entries"), "not kept"),
    ]
    if force and consumers:
        effects.append(ChangeEffect("consumers", ", ".join(consumers), "disconnected"))
    path = at_subscription(subject.the_topic, subject.subscription)
    return ChangePlan(
        f"Delete {subject.subscription}",
        tuple(effects),
        ("the position is lost: a new subscription of this name begins where its client says",),
        None if blocked else PlannedRequest("DELETE", path, {"force": str(force).lower()}),
        exact=(str(force), *(sorted(consumers) if force else ())),
        obstacle=f"{counted(len(consumers), 'consumer')} still connected: plan it even with consumers"
        if blocked
        else "",
    )


def plan_place(text: str) -> Position | str | int:
    """What a reset's field names: earliest, latest, a position, or a time, as ms since 1970. AdminRefusal."""
    text = text.strip()
    if text in ("earliest", "latest"):
        return text
    try:
        return Position.parse(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise bad_request(
            f"{text[:80]!r} is no place: give earliest, latest, LEDGER:ENTRY, or a time such as 2026-01-31T12:00 (UTC)"
        ) from None


def _place_effects(move: CursorMovePlan) -> tuple[ChangeEffect, ...]:
    before, after = move.before, move.after
    found = [
        ChangeEffect("mark-delete position", str(before.mark_delete), str(after.mark_delete)),
        ChangeEffect("backlog, in entries", f"{before.backlog:,}", f"{after.backlog:,}"),
        ChangeEffect("acknowledged ranges above mark-delete", f"{before.holes:,}", f"{after.holes:,}"),
    ]
    return tuple(each for each in found if each.before != each.after)


def _message_id(position: Position) -> dict[str, int]:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


async def _state(asked: ChangeAsked) -> tuple[LedgerList, CursorRecoveryPlan]:
    internal = await asked.client.get(at_topic(asked.subject.the_topic, "internalStats"))
    ledgers = plan_ledgers(internal)
    return ledgers, plan_cursor(internal, asked.subject.subscription, ledgers)


async def _figures(asked: ChangeAsked) -> Mapping[str, Any]:
    stats = await asked.client.get(at_topic(asked.subject.the_topic, "stats"))
    found = stats["subscriptions"].get(asked.subject.subscription)
    if found is None:
        raise not_found(f"there is no subscription {asked.subject.subscription}")
    figures: Mapping[str, Any] = found
    return figures


def _through(asked: ChangeAsked, title: str, state: tuple[LedgerList, CursorRecoveryPlan], to: Position) -> ChangePlan:
    return plan_acknowledged(title, asked.subject, plan_expire_through(*state, to), to)


async def skip(asked: ChangeAsked) -> ChangePlan:
    """Acknowledge the next entries."""
    count = asked.number("count", 1, MOST_SKIPPED)
    state = await _state(asked)
    to = Position.parse(asked.target) if asked.target else plan_skip(*state, count).after.mark_delete
    return _through(asked, f"Skip {counted(count, 'entry', 'entries')} of {asked.subject.subscription}", state, to)


async def clear(asked: ChangeAsked) -> ChangePlan:
    """Acknowledge everything that is there now."""
    state = await _state(asked)
    to = Position.parse(asked.target) if asked.target else plan_clear_backlog(*state).after.mark_delete
    return _through(asked, f"Clear the backlog of {asked.subject.subscription}", state, to)


async def expire(asked: ChangeAsked) -> ChangePlan:
    """Acknowledge what was published earlier than so many seconds ago."""
    seconds = asked.number("seconds", 1, MOST_SECONDS)
    state = await _state(asked)
    if asked.target:
        to = Position.parse(asked.target)
    else:
        after = await _position_at(asked, max(0, asked.now_ms - seconds * 1000))
        to = Position(after.ledger_id, after.entry_id - 1) if after != EARLIEST else state[1].mark_delete
    return _through(asked, f"Expire what is older than {seconds:,} s on {asked.subject.subscription}", state, to)


async def reset(asked: ChangeAsked) -> ChangePlan:
    """Continue at another place."""
    ledgers, cursor = await _state(asked)
    place: Position | str
    if asked.target:
        place = Position.parse(asked.target)
    else:
        wanted = plan_place(asked.values.get("to", ""))
        place = await _position_at(asked, wanted) if isinstance(wanted, int) else wanted
        place = plan_reset_to(ledgers, cursor, place).after.read_position
    move = plan_reset_to(ledgers, cursor, place)
    return plan_moved(asked.subject, move, place, len((await _figures(asked))["consumers"]))


async def delete(asked: ChangeAsked) -> ChangePlan:
    """Delete the subscription."""
    return plan_dropped(asked.subject, await _figures(asked), force=asked.values.get("force") == "on")


async def _position_at(asked: ChangeAsked, time_ms: int) -> Position:
    """The position after the last message that was published before a time."""
    if time_ms < 0:
        raise bad_request(f"{utc_text(0)} is the earliest time")
    found = await asked.client.get(at_topic(asked.subject.the_topic, f"messageid/{time_ms}"))
    return Position(found["ledgerId"], found["entryId"])


def _moved(subject: ChangeSubject) -> PlannedRequest:
    return PlannedRequest("POST", at_subscription(subject.the_topic, subject.subscription, "skip_all"))


def _dropped(subject: ChangeSubject) -> PlannedRequest:
    return PlannedRequest("DELETE", at_subscription(subject.the_topic, subject.subscription))


SUBSCRIPTION_CHANGES = (
    OfferedChange(
        "skip",
        "Skip",
        "Acknowledge the next entries of the backlog.",
        _moved,
        skip,
        (ChangeField("count", "entries", NUMBER, "1"),),
    ),
    OfferedChange(
        "expire",
        "Expire",
        "Acknowledge what was published earlier than this.",
        _moved,
        expire,
        (ChangeField("seconds", "seconds ago", NUMBER, "3600"),),
    ),
    OfferedChange("clear", "Clear the backlog", "Acknowledge everything that is there now.", _moved, clear),
    OfferedChange(
        "reset",
        "Reset",
        "Continue at another place: messages are delivered again, or passed over.",
        _moved,
        reset,
        (ChangeField("to", "to", default="earliest", hint="earliest, latest, LEDGER:ENTRY or 2026-01-31T12:00"),),
    ),
    OfferedChange(
        "delete",
        "Delete the subscription",
        "Forget its position.",
        _dropped,
        delete,
        (ChangeField("force", "even with consumers", CHECK),),
        removes=True,
    ),
)

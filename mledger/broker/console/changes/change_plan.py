"""What a change would do, as its user sees it before it is confirmed. No I/O."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mledger.broker.admin_rest.refusals import bad_request
from mledger.broker.console.admin_client import AdminClient, PlannedRequest
from mledger.metastore.records.paths import TopicName

CHOICE, NUMBER, TEXT, CHECK = "choice", "number", "text", "check"


class ChangeEffect(Struct, frozen=True):
    """One thing that changes."""

    what: str
    before: str
    after: str


class ChangePlan(Struct, frozen=True):
    """A change as it would be carried out by `request`; without one there is an `obstacle`, or nothing to do.

    `target` is what was decided from the state, so that a later plan is for the same end. A confirmed plan holds while
    `exact` is the same and `most`, of what is lost, is not more.
    """

    title: str
    effects: tuple[ChangeEffect, ...]
    warnings: tuple[str, ...] = ()
    request: PlannedRequest | None = None
    target: str = ""
    exact: tuple[str, ...] = ()
    most: int = 0
    obstacle: str = ""

    @property
    def bond(self) -> dict[str, Any]:
        """What a seal keeps of it."""
        return {"target": self.target, "exact": list(self.exact), "most": self.most}


def plan_holds(bond: Mapping[str, Any], now: ChangePlan) -> bool:
    """Whether a plan with this bond still says what would happen."""
    return bool(bond["exact"] == list(now.exact) and now.most <= bond["most"])


class ChangeSubject(Struct, frozen=True):
    """What a change is about; the topic and the subscription where there is one."""

    namespace: str
    topic: TopicName | None = None
    subscription: str = ""

    @property
    def the_topic(self) -> TopicName:
        """The topic of a change that has one."""
        assert self.topic is not None
        return self.topic


class ChangeAsked(Struct, frozen=True):
    """A change that is to be planned: for whom, of what, with which values, and towards which target if it has one."""

    client: AdminClient
    subject: ChangeSubject
    values: Mapping[str, str]
    target: str
    now_ms: int

    def number(self, name: str, low: int, most: int) -> int:
        """A value of the form that is a whole number. AdminRefusal."""
        text = self.values.get(name, "").strip()
        if not text.isascii() or not text.isdigit() or len(text) > 15 or not low <= int(text) <= most:
            raise bad_request(f"{name} must be a whole number from {low:,} to {most:,}, not {text[:40]!r}")
        return int(text)


class ChangeField(Struct, frozen=True):
    """A field of a change's form."""

    name: str
    label: str
    kind: str = TEXT
    default: str = ""
    choices: Sequence[str] = ()
    hint: str = ""


class OfferedChange(Struct, frozen=True):
    """A change that the console offers; `right` is the request whose right it needs."""

    name: str
    label: str
    explanation: str
    right: Callable[[ChangeSubject], PlannedRequest]
    plan: Callable[[ChangeAsked], Awaitable[ChangePlan]]
    fields: tuple[ChangeField, ...] = ()
    removes: bool = False
    """Whether it deletes what cannot be brought back."""
    values: Mapping[str, str] = field(default_factory=dict)


def counted(number: int, one: str, more: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"

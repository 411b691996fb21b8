import dataclasses
import inspect

import pytest

from mledger import events
from mledger.broker import client_events
from mledger.events import Event
from mledger.metastore.records.position import Position

KINDS = [
    kind
    for module in (events, client_events)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, Event) and kind is not Event
]
VALUES = {"int": 7, "bool": True, "str": "text", "Position": Position(3, 4), "tuple[str, ...]": ("first", "second")}


def example(kind: type[Event]) -> Event:
    types = {item.name: getattr(item.type, "__name__", str(item.type)) for item in dataclasses.fields(kind)}
    return kind(**{name: VALUES.get(type_name, VALUES["tuple[str, ...]"]) for name, type_name in types.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_describes_itself_in_one_line_with_all_its_fields(kind):
    event = example(kind)
    line = event.describe()
    assert line
    assert "\n" not in line
    for item in dataclasses.fields(kind):
        value = getattr(event, item.name)
        for part in value if isinstance(value, tuple) and not isinstance(value, Position) else (value,):
            assert item.name == "topic" or str(part) in line


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_immutable(kind):
    with pytest.raises(dataclasses.FrozenInstanceError):
        example(kind).topic = "other"


def test_every_event_has_a_name_of_its_own():
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_the_documented_run_reads_as_a_timeline():
    assert events.CursorRecovered("t", "sub", Position(56, 9), "R3", 0).describe() == (
        "Cursor sub recovered to position 56:9 by R3, backlog 0"
    )
    assert events.ResetSinceConsumed("t", "sub", Position(56, 9), Position(603, -1)).describe() == (
        "Reset cursor sub from 56:9 to 603:-1 since its ledger is consumed completely"
    )
    assert events.RemovingLedger("t", 56, 673).describe() == "Removing ledger 56: size=673"

"""What a writer finds in place of a failed bookie while nobody tells which bookies there are."""

import asyncio
import random

import pytest

from mledger.bookie.client.connections.pool import Lane
from mledger.bookie.client.ledgers.ensembles.replacement import find_replacements
from mledger.metastore.errors import MetadataAccessDenied, NodeNotFound, RecordError, StoreUnavailable
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup


class UntoldPool:
    """A pool whose metadata store does not list the bookies."""

    def __init__(self, error):
        self._error = error

    async def usable(self, *_, **__):
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("no answer"),
        RecordError("damaged"),
        NodeNotFound("gone, as during a restore", "/ledgers/available"),
        MetadataAccessDenied("not for this user", "/ledgers/available"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_nothing_is_found_and_the_ledger_goes_on_with_those_that_are_left(error):
    finding = find_replacements(
        ("a:1", "b:1", "c:1"), {0}, (), UntoldPool(error), Lane.NORMAL, random.Random(0), write_quorum=3
    )
    assert asyncio.run(finding) == {}


def test_bookies_are_asked_for_by_the_groups_of_the_ledger():
    asked = []

    class AskedPool(UntoldPool):
        async def usable(self, size, affinity, **_):
            asked.append((size, affinity))
            raise self._error

    group = BookieAffinityGroup("gold")
    finding = find_replacements(
        ("a:1", "b:1"),
        {0},
        (),
        AskedPool(StoreUnavailable("no answer")),
        Lane.NORMAL,
        random.Random(0),
        write_quorum=2,
        affinity=group,
    )
    assert asyncio.run(finding) == {}
    assert asked == [(2, group)]

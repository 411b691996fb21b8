"""`mledger topics trim` while retention ends: it deletes what its plan and its undo file name, and nothing more."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

CONFIG = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
SINGLE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
RETENTION = ("--set", "defaultRetentionTimeInMinutes=10", "--set", "defaultRetentionSizeInMB=-1")


def consumed(url: str, topic: str) -> list[int]:
    """The ledgers of a topic of 35 entries, whose first 32 its only cursor has acknowledged."""

    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 35)
            await (await opened.open_cursor("sub")).acknowledge_cumulative(positions[31])
            return list(opened.ledger_list.ids)

    return run(main())


def backdate(url: str, topic: str, minutes: Sequence[int]) -> int:
    """Let the topic's first ledgers be closed so many minutes ago; returns the present, in ms since 1970."""
    now_ms, path = wall_clock_ms(), managed_ledger_path(managed_ledger_of(topic))

    async def main():
        async with await open_store(url) as store:
            node = await store.get(path)
            info = decode_managed_ledger_info(node.data, path).value
            closed = [
                replace(each, timestamp=now_ms - 60_000 * ago) for each, ago in zip(info.ledgers, minutes, strict=False)
            ]
            info = structs.replace(info, ledgers=(*closed, *info.ledgers[len(closed) :]))
            await store.put(path, encode_managed_ledger_info(info), node.version)

    run(main())
    return now_ms


@pytest.mark.parametrize("scope", ["topic", "namespace"])
def test_a_ledger_whose_retention_ends_after_the_plan_stays(url, topic, undo_file, monkeypatch, scope) -> None:
    topic = topic.replace("default", f"later-{scope}")
    before = consumed(url, topic)
    now_ms = backdate(url, topic, [60, 40, 30])
    for module in ("changes", "trim_sweep"):  # the plan was made 45 minutes ago
        monkeypatch.setattr(f"mledger.cli.topics.{module}.wall_clock_ms", lambda: now_ms - 45 * 60_000)
    selected = (topic,) if scope == "topic" else ("--namespace", f"public/later-{scope}")
    arguments = (*selected, *RETENTION, *SINGLE, "--yes", "--undo-file", undo_file)
    assert answer("topics", "trim", *arguments, url=url)["removed"] == before[:1]
    left = [each["ledger_id"] for each in answer("topics", "describe", topic, url=url)["ledgers"]]
    assert left[:3] == before[1:4]
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))

"""Each row of `operators-table.md`: our command on a cluster that Java wrote, compared with Java's.

The rows of BookKeeper's shell are in `rows_of_bookkeeper_shell`: one cluster of Java's serves them all.
"""

import pytest

from mledger.metastore.zookeeper.launcher import free_port
from tests.interop.topics import MAX_ENTRIES, PAYLOADS, full_name, managed_ledger_name, write_java
from tests.support.cli import answer, ok
from tests.support.java.java_cluster import NUMBERS, Originals, change, known, ledgers_of, undo, without_times
from tests.support.pulsar_entries import pulsar_entry

pytestmark = [pytest.mark.interop, pytest.mark.slow]

BOOKIES = 3


@pytest.fixture(scope="module")
def originals(start_original, shared_zookeeper, _new_chroot, tmp_path_factory):
    """Three bookies and an owner of Java's, on a tree that Java initialised."""
    chroot = _new_chroot()
    java = start_original()
    zookeeper, directories = shared_zookeeper.connect_string + chroot, tmp_path_factory.mktemp("originals")
    java.call("bookies.init", zookeeper=zookeeper)
    ids = [
        java.call("bookies.start", zookeeper=zookeeper, dir=str(place), port=free_port())["bookie_id"]
        for place in (directories / f"bookie-{number}" for number in range(BOOKIES))
    ]
    java.call("ledger.connect", zookeeper=zookeeper)
    java.call("topic.connect", zookeeper=zookeeper)
    return Originals(shared_zookeeper.url + chroot, zookeeper, java, ids, directories)


@pytest.fixture(scope="module")
def read_only_topic(originals):
    """A closed topic that the tests only read."""
    return originals.topic()


@pytest.fixture
def undo_file(tmp_path):
    """The path of the undo file."""
    return tmp_path / "undo.json"


# pulsar-managed-ledger-admin


def test_print_managed_ledger(originals, read_only_topic):
    theirs = originals.java.call("topic.info", topic=managed_ledger_name(read_only_topic))
    ours = answer("metadata", "get", f"/managed-ledgers/{managed_ledger_name(read_only_topic)}", url=originals.url)
    assert ours["version"] == theirs["version"]
    assert [each["ledger_id"] for each in ours["value"]["ledgers"]] == [each["ledgerId"] for each in theirs["ledgers"]]
    assert [each["entries"] for each in ours["value"]["ledgers"]] == [40, 40, 0]


def test_print_cursor(originals, read_only_topic):
    theirs = originals.java.call("topic.info", topic=managed_ledger_name(read_only_topic))["cursors"]["holes"]
    ours = answer("cursors", "describe", full_name(read_only_topic), "holes", url=originals.url)
    assert ours["cursor_ledger"] == theirs["cursorsLedgerId"]
    assert ours["metadata_version"] == theirs["version"]
    mark_delete = theirs["markDelete"]
    assert ours["snapshot"] == f"{mark_delete['ledgerId']}:{mark_delete['entryId']}"


def test_delete_managed_ledger_ids(originals, undo_file):
    topic = originals.topic()
    first, second, _ = ledgers_of(topic, originals)
    done = change(originals, undo_file, "topics", "drop-ledgers", full_name(topic), first)
    assert [each["ledger_id"] for each in done["ledgers"]] if isinstance(done["ledgers"][0], dict) else done["ledgers"]
    undo(originals, undo_file)
    assert originals.opened(topic)["entries"] == 100
    undo_file.unlink()
    change(originals, undo_file, "topics", "drop-ledgers", full_name(topic), first)
    state = originals.opened(topic)
    assert state["entries"] == 60
    assert next(each for each in state["cursors"] if each["name"] == "untouched")["mark_delete"] == [second, -1]


def test_update_mark_delete_cursor(originals, undo_file):
    topic = originals.topic()
    first = ledgers_of(topic, originals)[0]
    change(originals, undo_file, "cursors", "reset", full_name(topic), "untouched", "--to", f"{first}:5")
    assert originals.mark_delete(topic, "untouched") == [first, 4]


# pulsar-admin topics


@pytest.mark.parametrize("closed", [True, False])
def test_info_internal(originals, closed):
    topic = originals.topic(closed=closed)
    theirs = originals.java.call("topic.info", topic=managed_ledger_name(topic))
    ours = answer("topics", "info-internal", full_name(topic), url=originals.url)
    assert ours["ledgers"][2]["timestamp"] == 0
    theirs["ledgers"][2]["timestamp"] = 0  # the record says 0; Java shows the time of the call
    assert without_times(ours) == without_times(theirs)


def test_stats_internal(originals):
    topic = originals.topic(closed=False)
    theirs = originals.java.call("topic.stats", topic=managed_ledger_name(topic))
    ours = answer("topics", "stats-internal", full_name(topic), url=originals.url)
    assert ours.keys() - theirs.keys() == {"schemaLedgers", "compactedLedger"}
    assert not theirs.keys() - ours.keys() - {"ms"}
    for cursor, shown in ours["cursors"].items():
        assert shown.keys() == theirs["cursors"][cursor].keys()
    unlike = {"lastLedgerCreatedTimestamp", "schemaLedgers", "compactedLedger"}
    ours = {key: value for key, value in ours.items() if key not in unlike}
    for ledger in ours["ledgers"]:
        assert not ledger.pop("underReplicated")
    for cursor in ours["cursors"].values():
        del cursor["lastLedgerSwitchTimestamp"]
    assert known(theirs, ours) == known(ours, ours)


def test_stats_internal_metadata(originals, read_only_topic):
    ours = answer("topics", "stats-internal", full_name(read_only_topic), "--with-metadata", url=originals.url)
    for ledger in ours["ledgers"]:
        theirs = originals.shell("ledgermetadata", "-l", ledger["ledgerId"])
        metadata = ledger["metadata"]
        assert f"state={metadata['state']}" in theirs
        assert f"lastEntryId={metadata['last_entry']}" in theirs
        assert f"length={metadata['length']}" in theirs
        assert f"{{0=[{', '.join(metadata['segments'][0]['bookies'])}]}}" in theirs
        assert "password" not in metadata


def test_topics_list(originals, read_only_topic):
    listed = [each["topic"] for each in answer("topics", "list", "interop/test", url=originals.url)]
    assert full_name(read_only_topic) in listed


def test_last_message_id(originals, read_only_topic):
    theirs = originals.opened(read_only_topic)
    ours = answer("topics", "describe", full_name(read_only_topic), url=originals.url)
    assert ours["last_confirmed"] == ":".join(map(str, theirs["last_confirmed"]))
    assert (ours["entries"], ours["size"]) == (theirs["entries"], theirs["size"])


def test_get_message_by_id(originals, read_only_topic):
    ledger = ledgers_of(read_only_topic, originals)[1]
    position = f"{ledger}:7"
    done = ok("topics", "read", full_name(read_only_topic), "--first", position, "--last", position, "--raw",
              url=originals.url)  # fmt: skip
    assert done.out.encode() == PAYLOADS[MAX_ENTRIES + 7]


def test_examine_messages(originals, read_only_topic):
    done = ok("topics", "read", full_name(read_only_topic), "--limit", 3, url=originals.url)
    assert done.out.encode().splitlines() == PAYLOADS[:3]


def test_peek_messages(originals, read_only_topic):
    name = full_name(read_only_topic)
    cursor = answer("cursors", "describe", name, "cumulative", url=originals.url)
    done = ok("topics", "read", name, "--first", cursor["read_position"], "--limit", 1, "--raw", url=originals.url)
    assert done.out.encode() == PAYLOADS[30]


def test_subscriptions(originals, read_only_topic):
    theirs = {each["name"]: each for each in originals.opened(read_only_topic)["cursors"]}
    ours = {each["cursor"]: each for each in answer("cursors", "list", full_name(read_only_topic), url=originals.url)}
    theirs["at/the end"] = theirs.pop("at%2Fthe+end")
    assert {name: each["backlog"] for name, each in ours.items()} == {
        name: each["backlog"] for name, each in theirs.items()
    }


def test_analyze_backlog(originals, read_only_topic):
    ours = answer("cursors", "describe", full_name(read_only_topic), "holes", url=originals.url)
    theirs = originals.cursor(read_only_topic, "holes")
    assert ours["backlog"] == theirs["backlog"]
    assert f"[{','.join(ours['hole_ranges'])}]" == theirs["holes"]


def test_create_subscription(originals):
    topic = originals.topic()
    ok("cursors", "create", full_name(topic), "new", "--at", "earliest", url=originals.url)
    assert originals.cursor(topic, "new")["backlog"] == 100


def test_unsubscribe(originals, undo_file):
    topic = originals.topic()
    change(originals, undo_file, "cursors", "delete", full_name(topic), "holes")
    theirs = originals.java.call("topic.info", topic=managed_ledger_name(topic))
    assert "holes" not in theirs["cursors"]
    undo(originals, undo_file)
    assert originals.cursor(topic, "holes")["backlog"] == 90


def test_skip_messages(originals, undo_file):
    topic = originals.topic()
    change(originals, undo_file, "cursors", "skip", full_name(topic), "untouched", 50)
    assert originals.cursor(topic, "untouched")["backlog"] == 50


def test_clear_backlog(originals, undo_file):
    topic = originals.topic()
    change(originals, undo_file, "cursors", "clear", full_name(topic), "untouched")
    assert originals.cursor(topic, "untouched")["backlog"] == 0


def timed_topic(originals) -> tuple[str, int]:
    """A topic of entries as a broker stores them, published a second apart, and the time of the first."""
    topic, start = f"timed-{next(NUMBERS)}", 1_700_000_000_000
    name = managed_ledger_name(topic)
    originals.java.call("topic.open", topic=name, max_entries=MAX_ENTRIES)
    originals.java.call("topic.cursor", topic=name, cursor="c")
    entries = [pulsar_entry(start + number * 1000).hex() for number in range(10)]
    originals.java.call("topic.append", topic=name, entries=entries)
    originals.java.call("topic.close", topic=name)
    return topic, start


def test_reset_cursor(originals, undo_file):
    topic, start = timed_topic(originals)
    change(originals, undo_file, "cursors", "reset", full_name(topic), "c", "--to", start + 4000)
    undo(originals, undo_file)
    assert originals.cursor(topic, "c")["backlog"] == 10
    again = undo_file.with_name("again.json")
    change(originals, again, "cursors", "reset", full_name(topic), "c", "--to", start + 4000)
    assert originals.cursor(topic, "c")["backlog"] == 6


def test_get_message_id(originals):
    topic, start = timed_topic(originals)
    ledger = ledgers_of(topic, originals)[0]
    plan = answer("cursors", "reset", full_name(topic), "c", "--to", start + 4000, "--dry-run", url=originals.url)
    assert plan["mark_delete_after"] == f"{ledger}:3"


def test_update_subscription_properties(originals, undo_file):
    topic = originals.topic()
    change(originals, undo_file, "cursors", "set-properties", full_name(topic), "holes", "team=blue")
    assert originals.cursor(topic, "holes")["cursor_properties"] == {"colour": "grün", "team": "blue"}


def test_update_properties(originals, undo_file):
    topic = originals.topic()
    change(originals, undo_file, "topics", "set-properties", full_name(topic), "owner=alice")
    theirs = originals.java.call("topic.info", topic=managed_ledger_name(topic))
    assert theirs["properties"] == {"owner": "alice"}


def test_terminate(originals, undo_file):
    topic = originals.topic()
    done = change(originals, undo_file, "topics", "terminate", full_name(topic))
    theirs = originals.java.call("topic.info", topic=managed_ledger_name(topic))["terminatedPosition"]
    assert done["terminated"] == {full_name(topic): f"{theirs['ledgerId']}:{theirs['entryId']}"}


def test_truncate(originals, undo_file):
    topic = originals.topic()
    change(originals, undo_file, "topics", "truncate", full_name(topic))
    assert originals.opened(topic)["entries"] == 0


def test_trim_topic(originals, undo_file):
    topic = originals.topic()
    for cursor in ("untouched", "cumulative", "holes"):
        change(originals, undo_file.with_name(cursor), "cursors", "clear", full_name(topic), cursor)
    change(originals, undo_file, "topics", "trim", full_name(topic))
    assert originals.opened(topic)["entries"] == 60


def test_delete_topic(originals, undo_file):
    topic = originals.topic()
    ledger = ledgers_of(topic, originals)[0]
    change(originals, undo_file, "topics", "delete", full_name(topic))
    assert originals.refuses("ledgermetadata", "-l", ledger)


def test_create_partitioned_topic(originals):
    topic = f"parts-{next(NUMBERS)}"
    ok("topics", "create", full_name(topic), "--partitions", 2, url=originals.url)
    listed = answer("topics", "list", "--partitioned", url=originals.url)
    assert (full_name(topic), 2) in [(each["topic"], each["partition_count"]) for each in listed]
    assert originals.opened(f"{topic}-partition-1")["entries"] == 0


def test_partitioned_stats_internal(originals):
    topic = f"parts-{next(NUMBERS)}"
    ok("topics", "create", full_name(topic), "--partitions", 2, url=originals.url)
    write_java(originals.java, f"{topic}-partition-0")
    originals.java.call("topic.close", topic=managed_ledger_name(f"{topic}-partition-0"))
    shown = answer("topics", "describe", full_name(topic), url=originals.url)
    assert [each["entries"] for each in shown["partitions"]] == [100, 0]


# bookkeeper shell; at the end, because its last row stops the bookies

from tests.interop.rows_of_bookkeeper_shell import *  # noqa: E402, F403

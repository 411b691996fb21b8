"""Each row of `docs/operators-table.md`: ours on a cluster that the originals wrote, held to what theirs says."""

import base64
import itertools
import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from metastore.launcher import free_port
from tests.interop.topics import MAX_ENTRIES, PAYLOADS, full_name, managed_ledger_name, write_java
from tests.support.cli import answer, mledger, ok
from tests.support.originals import Original, OriginalError
from tests.support.pulsar_entries import pulsar_entry

pytestmark = pytest.mark.interop

BOOKIES = 3
LOST_BOOKIE = "10.0.0.9:3181"
_names = itertools.count(1)


@dataclass(frozen=True)
class Originals:
    """A cluster of the originals: initialised, served and written by them."""

    url: str
    zookeeper: str
    java: Original
    ids: list[str]
    directories: Path

    def shell(self, *arguments: object) -> str:
        """What `bookkeeper shell` prints; it has to succeed."""
        words = [str(argument) for argument in arguments]
        done = self.java.call("bookies.shell", zookeeper=self.zookeeper, arguments=words)
        assert done["code"] == 0, done["printed"]
        return done["printed"]

    def refuses(self, *arguments: object) -> bool:
        """Whether `bookkeeper shell` fails at that."""
        try:
            self.shell(*arguments)
        except (OriginalError, AssertionError):
            return True
        return False

    def topic(self, *, closed: bool = True) -> str:
        """A topic with entries and cursors; its owner is alive unless it was closed."""
        topic = f"topic-{next(_names)}"
        write_java(self.java, topic)
        if closed:
            self.java.call("topic.close", topic=managed_ledger_name(topic))
        return topic

    def opened(self, topic: str) -> dict:
        """The topic as the original finds it on opening; closed again."""
        name = managed_ledger_name(topic)
        self.java.call("topic.open", topic=name, max_entries=MAX_ENTRIES)
        self.java.call("topic.settle", topic=name)
        state = self.java.call("topic.state", topic=name)
        self.java.call("topic.close", topic=name)
        return state

    def mark_delete(self, topic: str, cursor: str) -> list[int]:
        """Where the original finds a cursor."""
        return self.cursor(topic, cursor)["mark_delete"]

    def cursor(self, topic: str, cursor: str) -> dict:
        """A cursor as the original finds it."""
        return next(each for each in self.opened(topic)["cursors"] if each["name"] == cursor)

    def ledger(self, *, closed: bool = True, entries: int = 5) -> int:
        """A ledger of no topic."""
        made = self.java.call(
            "ledger.create", handle="w", ensemble=3, write_quorum=3, ack_quorum=2, digest="CRC32C", password=""
        )
        self.java.call("ledger.append", handle="w", entries=[b"entry".hex()] * entries)
        if closed:
            self.java.call("ledger.close", handle="w")
        return made["ledger"]


@pytest.fixture(scope="module")
def originals(start_original, shared_zookeeper, _new_chroot, tmp_path_factory):
    """Three bookies and an owner of the originals, on a tree that the originals initialised."""
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
    """A closed topic that the tests only look at."""
    return originals.topic()


@pytest.fixture
def undo_file(tmp_path):
    """Where the undo file goes."""
    return tmp_path / "undo.json"


def change(originals, undo_file, *arguments):
    """Run a changing command, after its dry run, which leaves nothing behind."""
    answer(*arguments, "--dry-run", url=originals.url)
    assert not undo_file.exists()
    return answer(*arguments, "--yes", "--undo-file", undo_file, url=originals.url)


def undo(originals, undo_file):
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=originals.url)


def without_times(value):
    """The same with each ISO time as a moment: the originals write them in their own time zone."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "ms"}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.fromisoformat(value)
    return value


def known(theirs, ours):
    """What is not null in ours, of theirs."""
    if isinstance(ours, dict):
        return {key: known(theirs[key], item) for key, item in ours.items() if item is not None and key in theirs}
    if isinstance(ours, list):
        return [known(one, other) for one, other in zip(theirs, ours, strict=True)]
    return theirs


def ledgers_of(topic, originals) -> list[int]:
    return [each["ledger_id"] for each in answer("topics", "describe", full_name(topic), url=originals.url)["ledgers"]]


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
    theirs["ledgers"][2]["timestamp"] = 0  # the record says 0; the original shows the time of the call
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
    """A topic of entries as a broker stores them, published a second apart, and when the first was."""
    topic, start = f"timed-{next(_names)}", 1_700_000_000_000
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
    topic = f"parts-{next(_names)}"
    ok("topics", "create", full_name(topic), "--partitions", 2, url=originals.url)
    listed = answer("topics", "list", "--partitioned", url=originals.url)
    assert (full_name(topic), 2) in [(each["topic"], each["partition_count"]) for each in listed]
    assert originals.opened(f"{topic}-partition-1")["entries"] == 0


def test_partitioned_stats_internal(originals):
    topic = f"parts-{next(_names)}"
    ok("topics", "create", full_name(topic), "--partitions", 2, url=originals.url)
    write_java(originals.java, f"{topic}-partition-0")
    originals.java.call("topic.close", topic=managed_ledger_name(f"{topic}-partition-0"))
    shown = answer("topics", "describe", full_name(topic), url=originals.url)
    assert [each["entries"] for each in shown["partitions"]] == [100, 0]


# bookkeeper shell: ledgers


def test_listledgers(originals, read_only_topic):
    ours = [each["ledger_id"] for each in answer("ledgers", "list", url=originals.url)]
    assert ours == [int(found) for found in re.findall(r"ledgerID: (\d+)", originals.shell("listledgers"))]
    bookie = originals.ids[0]
    of_bookie = [each["ledger_id"] for each in answer("ledgers", "list", "--bookie", bookie, url=originals.url)]
    printed = originals.shell("listledgers", "-bookieid", bookie)
    theirs = [int(found) for found in re.findall(r"ledgerID: (\d+)", printed)]
    empty = [each["ledger_id"] for each in answer("ledgers", "list", url=originals.url) if each["entries"] == 0]
    assert [ledger for ledger in of_bookie if ledger not in empty] == [each for each in theirs if each not in empty]


def test_ledgermetadata(originals, read_only_topic):
    ledger = ledgers_of(read_only_topic, originals)[0]
    ours = answer("ledgers", "describe", ledger, url=originals.url)
    theirs = originals.shell("ledgermetadata", "-l", ledger)
    assert f"state={ours['state']}, length={ours['length']}, lastEntryId={ours['last_entry']}" in theirs
    assert f"digestType={ours['digest_type']}" in theirs
    assert f"0=[{', '.join(ours['ensembles'][0]['bookies'])}]" in theirs
    for key, value in ours["custom_metadata"].items():
        assert f"{key}=base64:{base64.b64encode(value.encode()).decode()}" in theirs


def test_readledger(originals, read_only_topic):
    ledger = ledgers_of(read_only_topic, originals)[0]
    done = ok("ledgers", "read", ledger, "--first", 3, "--last", 5, url=originals.url)
    assert done.out.encode().splitlines() == PAYLOADS[3:6]
    theirs = originals.shell("readledger", "-l", ledger, "-fe", 3, "-le", 5, "-m")
    assert all(payload.decode() in theirs for payload in PAYLOADS[3:6])


def test_entries_of_a_cursor_ledger(originals):
    topic = originals.topic(closed=False)
    name = managed_ledger_name(topic)
    theirs = originals.java.call("topic.stats", topic=name)["cursors"]["holes"]
    position = [ledgers_of(topic, originals)[0], 20]
    originals.java.call("topic.ack", topic=name, cursor="holes", positions=[position])  # confirms the entry before it
    lines = ok("ledgers", "read", theirs["cursorLedger"], "--decode", "--last", theirs["cursorLedgerLastEntry"],
               url=originals.url).lines  # fmt: skip
    assert lines[-1]["state"]["position"] == theirs["markDeletePosition"]
    assert f"[{','.join(lines[-1]['state']['ranges'])}]" == theirs["individuallyDeletedMessages"]


def test_readledger_with_recovery(originals, undo_file):
    ledger = originals.ledger(closed=False, entries=7)
    done = change(originals, undo_file, "ledgers", "recover", ledger)
    assert (done["state"], done["last_entry"]) == ("CLOSED", 6)
    assert "state=CLOSED, length=35, lastEntryId=6" in originals.shell("ledgermetadata", "-l", ledger)


def test_deleteledger(originals, undo_file):
    ledger = originals.ledger()
    change(originals, undo_file, "ledgers", "delete", ledger, "--force")
    assert originals.refuses("ledgermetadata", "-l", ledger)
    undo(originals, undo_file)
    assert "state=CLOSED" in originals.shell("ledgermetadata", "-l", ledger)


def test_update_bookie_in_ledger(originals, undo_file):
    ledger, old = originals.ledger(), originals.ids[1]
    refused = mledger("ledgers", "replace-bookie", old, LOST_BOOKIE, "--dry-run", url=originals.url)
    assert (refused.code, "registered" in refused.err) == (4, True)
    done = change(originals, undo_file, "ledgers", "replace-bookie", old, LOST_BOOKIE, "--force")
    assert ledger in done["changed"]
    assert LOST_BOOKIE in originals.shell("ledgermetadata", "-l", ledger)
    listed = answer("ledgers", "list", "--bookie", LOST_BOOKIE, url=originals.url)
    assert [each["ledger_id"] for each in listed] == done["changed"]
    undo(originals, undo_file)
    assert LOST_BOOKIE not in originals.shell("listledgers", "-m")


# bookkeeper shell: bookies, cookies, the cluster


def test_listbookies(originals):
    ours = {each["bookie_id"]: each["address"] for each in answer("bookies", "list", url=originals.url)}
    found = re.findall(r"BookieID:(\S+), IP:(\S+), Port:(\d+)", originals.shell("listbookies", "-a"))
    assert ours == {bookie_id: f"{ip}:{port}" for bookie_id, ip, port in found}


def test_bookieinfo(originals):
    printed = originals.shell("bookieinfo")
    for bookie_id in originals.ids:
        ours = answer("bookies", "describe", bookie_id, url=originals.url)
        found = re.search(rf"BookieID:{re.escape(bookie_id)},.*Free: (\d+).*Total: (\d+)", printed)
        assert found
        assert ours["disk_bytes"] == int(found[2])
        assert ours["free_bytes"] == pytest.approx(int(found[1]), rel=0.2)


def test_endpointinfo(originals):
    ours = answer("bookies", "describe", originals.ids[0], url=originals.url)
    host, port = ours["address"].split(":")
    printed = originals.shell("endpointinfo", "-b", originals.ids[0])
    assert host in printed
    assert port in printed


def test_bookiesanity(originals):
    checked = answer("bookies", "check", url=originals.url)
    assert sorted(each["bookie_id"] for each in checked) == sorted(originals.ids)
    assert [problem for each in checked for problem in each["problems"] if not problem.startswith("warning")] == []


def test_whatisinstanceid(originals):
    ours = answer("bookies", "cluster", url=originals.url)
    assert ours["instance_id"] in originals.shell("whatisinstanceid")


def test_clusterinfo(originals):
    printed = originals.shell("clusterinfo")
    theirs = json.loads(printed[printed.index("{\n") : printed.rindex("}") + 1])
    ours = answer("bookies", "cluster", url=originals.url)
    assert ours["bookies"] == theirs["totalBookiesCount"]
    assert ours["writable"] == theirs["writableBookiesCount"]
    assert ours["read_only"] == theirs["readonlyBookiesCount"]
    assert len(ours["away"]) == theirs["unavailableBookiesCount"]
    assert bool(ours["underreplicated_ledgers"]) == theirs["clusterUnderReplicated"]
    assert ours["autorecovery_enabled"] == theirs["ledgerReplicationEnabled"]
    assert (ours["auditor"] or "") == theirs["auditorId"]


def test_initnewcluster(originals):
    before = answer("bookies", "cluster", url=originals.url)["instance_id"]
    assert answer("metadata", "init", url=originals.url)["instance_id"] == before
    assert before in originals.shell("whatisinstanceid")


def test_cookie_get(originals):
    raw = ok("bookies", "cookie", "show", originals.ids[0], "--raw", url=originals.url).out
    shown = answer("bookies", "cookie", "show", originals.ids[0], url=originals.url)
    printed = originals.shell("cookie_get", originals.ids[0])
    assert all(line in printed for line in raw.splitlines())
    assert shown["journal_dir"] in printed
    assert shown["bookie_id"] == originals.ids[0]


def test_cookie_create_and_update(originals, undo_file, tmp_path):
    file = tmp_path / "VERSION"
    file.write_text(ok("bookies", "cookie", "show", originals.ids[0], "--raw", url=originals.url).out
                    .replace(originals.ids[0], LOST_BOOKIE))  # fmt: skip
    change(originals, undo_file, "bookies", "cookie", "write", LOST_BOOKIE, "--file", file)
    assert LOST_BOOKIE in originals.shell("cookie_get", LOST_BOOKIE)
    again = undo_file.with_name("again.json")
    change(originals, again, "bookies", "cookie", "write", LOST_BOOKIE, "--journal-dir", "/new", "--ledger-dir", "/l")
    assert '"/new"' in originals.shell("cookie_get", LOST_BOOKIE)
    undo(originals, again)
    assert '"/new"' not in originals.shell("cookie_get", LOST_BOOKIE)
    change(originals, undo_file.with_name("gone.json"), "bookies", "cookie", "delete", LOST_BOOKIE)
    assert originals.refuses("cookie_get", LOST_BOOKIE)


def test_cookie_delete(originals, undo_file, tmp_path):
    refused = mledger("bookies", "cookie", "delete", originals.ids[0], "--dry-run", url=originals.url)
    assert (refused.code, "registered" in refused.err) == (4, True)
    change(originals, undo_file, "bookies", "cookie", "delete", originals.ids[0], "--force")
    assert originals.refuses("cookie_get", originals.ids[0])
    undo(originals, undo_file)
    assert originals.ids[0] in originals.shell("cookie_get", originals.ids[0])


# bookkeeper shell: auto-recovery


def test_listunderreplicated(originals):
    ledger = originals.ledger()
    originals.java.call("bookies.mark", zookeeper=originals.zookeeper, ledger=ledger, bookie_id=originals.ids[2])
    printed = originals.shell("listunderreplicated", "-pmr")
    ours = answer("bookies", "underreplicated", "--missing", originals.ids[2], url=originals.url)
    assert [each["ledger_id"] for each in ours] == [ledger]
    assert ours[0]["missing_replicas"] == [originals.ids[2]]
    assert f"Ctime : {ours[0]['since_ms']}" in printed
    assert f"MissingReplica : {originals.ids[2]}" in printed
    assert answer("bookies", "underreplicated", "--not-missing", originals.ids[2], url=originals.url) == []


def test_queryautorecoverystatus(originals):
    missing = originals.ids[2]
    originals.java.call("bookies.mark", zookeeper=originals.zookeeper, ledger=originals.ledger(), bookie_id=missing)
    ledger = originals.java.call("bookies.replicate", zookeeper=originals.zookeeper)["ledger"]
    marks = answer("bookies", "underreplicated", url=originals.url)
    (worker,) = [each["replicated_by"] for each in marks if each["ledger_id"] == ledger]
    assert worker
    assert [each["ledger_id"] for each in marks if each["replicated_by"]] == [ledger]
    printed = originals.shell("queryautorecoverystatus")
    assert re.search(rf"{ledger}\D.*{re.escape(worker)}", printed), printed


def test_whoisauditor(originals):
    originals.java.call("bookies.audit", zookeeper=originals.zookeeper, bookie_id=originals.ids[1])
    printed = originals.shell("whoisauditor")
    auditor = answer("bookies", "cluster", url=originals.url)["auditor"]
    assert auditor == originals.ids[1]
    assert auditor in printed


def test_autorecovery(originals, undo_file):
    change(originals, undo_file, "bookies", "autorecovery", "--disable")
    assert "disabled" in originals.shell("autorecovery").lower()
    undo(originals, undo_file)
    assert "enabled" in originals.shell("autorecovery").lower()


def test_lostbookierecoverydelay(originals, undo_file):
    originals.shell("lostbookierecoverydelay", "-s", 30)
    assert answer("bookies", "cluster", url=originals.url)["lost_bookie_delay"] == 30
    change(originals, undo_file, "bookies", "autorecovery", "--lost-bookie-delay", 45)
    assert "45" in originals.shell("lostbookierecoverydelay", "-g")
    undo(originals, undo_file)
    assert "30" in originals.shell("lostbookierecoverydelay", "-g")


def test_every_command_of_bookkeeper_shell_is_in_the_table(originals):
    printed = originals.shell("help")
    commands = set(re.findall(r"^ {1,8}([a-zA-Z_-]+)", printed, re.MULTILINE))
    assert {"listledgers", "cookie_get", "autorecovery"} <= commands
    table = (Path(__file__).parents[2] / "docs" / "operators-table.md").read_text()
    assert {command for command in commands if f"`{command}" not in table} == set()


def test_ledgermetadata_dumptofile_and_restorefromfile(originals, tmp_path, undo_file):
    """The last test here: bookies have to be down where metadata of ledgers is restored."""
    ledger, backup = originals.ledger(), tmp_path / "ledger.gz"
    before = originals.shell("ledgermetadata", "-l", ledger)
    path = f"/ledgers/{ledger // 10**8:02d}/{ledger // 10**4 % 10**4:04d}/L{ledger % 10**4:04d}"
    ok("metadata", "backup", backup, "--path", path, url=originals.url)
    ok("ledgers", "delete", ledger, "--force", "--yes", "--undo-file", undo_file, url=originals.url)
    for bookie_id in originals.ids:
        originals.java.call("bookies.stop", bookie_id=bookie_id)
    restored = undo_file.with_name("restored.json")
    ok("metadata", "restore", backup, "--path", path, "--yes", "--undo-file", restored, url=originals.url)
    metadata = re.compile(r"LedgerMetadata\{.*?ensembles=\{.*?\}")
    after = originals.shell("ledgermetadata", "-l", ledger)
    assert metadata.search(after)[0] == metadata.search(before)[0]

"""The rows of BookKeeper's shell in `docs/reference/operators-table.md`; collected by `test_operators_table`."""

import base64
import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from mledger.cli.ledgers.bookie_replacement import with_bookie
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.url import open_store
from tests.interop.topics import PAYLOADS, managed_ledger_name
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.java.java_cluster import change, ledgers_of, undo

LOST_BOOKIE = "10.0.0.9:3181"


# ledgers


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
    ledger = originals.ledger()
    old = answer("ledgers", "describe", ledger, url=originals.url)["ensembles"][0]["bookies"][0]
    refused = mledger("ledgers", "replace-bookie", old, LOST_BOOKIE, "--dry-run", url=originals.url)
    assert (refused.code, "registered" in refused.err) == (4, True)
    with rename_bookie(originals.url, ledger, old, LOST_BOOKIE):
        listed = answer("ledgers", "list", "--bookie", LOST_BOOKIE, url=originals.url)
        assert [each["ledger_id"] for each in listed] == [ledger]
        done = change(originals, undo_file, "ledgers", "replace-bookie", LOST_BOOKIE, old)
        assert done["changed"] == [ledger]
        assert LOST_BOOKIE not in originals.shell("ledgermetadata", "-l", ledger)
        undo(originals, undo_file)
        assert LOST_BOOKIE in originals.shell("ledgermetadata", "-l", ledger)


@contextmanager
def rename_bookie(url, ledger, old, new):
    """The metadata of a ledger that names a bookie by another id, for as long as this lasts."""

    async def replace(source, target):
        async with await open_store(url) as store:
            metadata, version = await LedgerStore(store).read(ledger)
            await LedgerStore(store).put(ledger, with_bookie(metadata, source, target), version)

    run(replace(old, new))
    try:
        yield
    finally:
        run(replace(new, old))


# bookies, cookies, the cluster


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


# auto-recovery


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
    table = (Path(__file__).parents[2] / "docs" / "reference/operators-table.md").read_text()
    assert {command for command in commands if f"`{command}" not in table} == set()


def test_ledgermetadata_dumptofile_and_restorefromfile(originals, tmp_path, undo_file):
    """The last test here: the bookies must be down when metadata of ledgers is restored."""
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

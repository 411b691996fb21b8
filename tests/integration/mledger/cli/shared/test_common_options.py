"""Options that all commands share: settings under Pulsar's and BookKeeper's names, and errors and warnings as JSON."""

import json

import pytest

from tests.support.aio import run
from tests.support.cli import mledger, ok
from tests.support.http import get

TOPIC = "persistent://public/default/set"


def test_settings_of_a_topic_come_from_a_file_and_from_set(url, tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("managedLedgerDefaultEnsembleSize=3\nmanagedLedgerDefaultAckQuorum=1\nmanagedLedgerWhat=1\n")
    done = ok("topics", "create", TOPIC, "--config", path, "--set", "managedLedgerDefaultWriteQuorum=2", url=url)
    assert done.err == "mledger: warning: unknown settings: managedLedgerWhat\n"
    ledger = ok("topics", "describe", TOPIC, "--output", "json", url=url).json["ledgers"][-1]["ledger_id"]
    found = ok("ledgers", "describe", ledger, "--output", "json", url=url).json
    assert (found["ensemble_size"], found["write_quorum"], found["ack_quorum"]) == (3, 2, 1)


def test_the_metadata_store_is_the_file_s_if_nothing_else_names_one(url, tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text(f"metadataStoreUrl={url.replace('zk://', 'zk:')}\n")
    done = ok("topics", "create", "persistent://public/default/from-file", "--config", path)
    assert done.err == ""


def test_a_bad_setting_is_a_usage_error_that_names_its_place(url, tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("\nmanagedLedgerDefaultAckQuorum=two\n")
    done = mledger("topics", "create", TOPIC, "--config", path, url=url)
    assert done.code == 2
    assert done.err == f"mledger: {path}:2: managedLedgerDefaultAckQuorum is 'two': a number is needed\n"


def test_errors_and_warnings_are_json_lines_if_asked_for(url):
    done = mledger("--log-format", "json", "topics", "describe", "persistent://public/default/none", url=url)
    (line,) = done.err.splitlines()
    said = json.loads(line)
    assert (done.code, said["level"], said["exit_code"]) == (3, "error", 3)
    assert "there is no topic" in said["message"]
    done = mledger("topics", "create", TOPIC + "-w", "--set", "noSuch=1", "--log-format", "json", url=url)
    assert [json.loads(line)["message"] for line in done.err.splitlines()] == ["unknown settings: noSuch"]


@pytest.mark.parametrize(
    ("name", "value"), [("MLEDGER_TIMEOUT", "nan"), ("MLEDGER_TIMEOUT", "soon"), ("MLEDGER_LOG_FORMAT", "xml")]
)
def test_a_variable_with_a_bad_value_is_a_usage_error_that_names_it(url, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    done = mledger("topics", "list", url=url)
    assert done.code == 2
    assert name in done.err
    assert repr(value) in done.err


def test_a_timeout_that_is_no_number_is_a_usage_error(url):
    assert mledger("topics", "list", "--timeout", "nan", url=url).code == 2


def test_the_next_command_prints_text_again(url):
    mledger("--log-format", "json", "topics", "describe", TOPIC, url=url)
    assert mledger("topics", "describe", "persistent://a/b/none", url=url).err.startswith("mledger: ")


def test_bookies_of_a_cluster_take_settings_serve_metrics_and_log_json(tmp_path):
    conf = tmp_path / "bookkeeper.conf"
    conf.write_text("bookiePort=3181\nzkServers=nowhere:1\nnettyMaxFrameSizeBytes=4096\njournalDirectory=/no/such\n")
    where = ("--dir", tmp_path / "c")
    try:
        done = ok(
            *(
                "up",
                "--no-broker",
                *where,
                "--metadata",
                "memory:",
                "--bookies",
                2,
                "--config",
                conf,
                "--set",
                "journalMaxSizeMB=8",
            ),
            *("--metrics", "--log-format", "json", "--output", "json"),
        )
        bookies = [part for part in done.json["processes"] if part["name"].startswith("bookie")]
        ports = [int(part["metrics"].rpartition(":")[2]) for part in bookies]
        assert [run(get(port, "/health")).status for port in ports] == [200, 200]
        logs = [path.read_text().splitlines() for path in (tmp_path / "c").glob("*/*.log")]
        assert len(logs) == 3
        assert all(json.loads(line)["level"] for lines in logs for line in lines)
        sizes = {path.stat().st_size for path in (tmp_path / "c").glob("bookie-*/data/journal/*.journal")}
        assert sizes == {8 << 20}
        assert ok("status", *where, "--output", "json").json["processes"] == done.json["processes"]
    finally:
        ok("down", *where)


def test_up_refuses_unreadable_settings_before_it_starts_anything(tmp_path):
    done = mledger("up", "--no-broker", "--dir", tmp_path / "c", "--set", "nonsense")
    assert (done.code, (tmp_path / "c").exists()) == (2, False)
    assert "KEY=VALUE" in done.err

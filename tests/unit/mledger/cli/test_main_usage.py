"""Bad usage is refused in one line that says what to do, before the command connects to anything."""

import pytest

from tests.support.cli import mledger, mledger_process

TOPIC = "persistent://public/default/t"
NOWHERE = "zk://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "nonsense"], "nonsense"),
        (["topics", "create"], "TOPIC"),
        (["topics", "create", "persistent://only-a-tenant"], "persistent://"),
        (["topics", "create", "topic", "--ensemble-size", "two"], "two"),
        (["topics", "create", TOPIC, "--ensemble-size", 2, "--write-quorum", 3], "ensemble"),
        (["topics", "create", TOPIC, "--ack-quorum", 0], "managedLedgerDefaultAckQuorum"),
        (["topics", "create", TOPIC, "--property", "novalue"], "KEY=VALUE"),
        (["topics", "produce", TOPIC, "--file", "/nowhere/at/all"], "/nowhere/at/all"),
        (["topics", "produce", TOPIC, "--count", 0], "count"),
        (["topics", "read", TOPIC, "--first", "12"], "LEDGER:ENTRY"),
        (["cursors", "create", TOPIC, "c", "--at", "yesterday"], "LEDGER:ENTRY"),
        (["ledgers", "read", "minus-one"], "minus-one"),
        (["ledgers", "describe", -1], "-1"),
        (["topics", "list", "--output", "xml"], "xml"),
        (["topics", "list", "--metadata", "http://there"], "zk://"),
        (["topics", "list", "--metadata", "zk://host:99999"], "99999"),
        (["up", "--bookies", 0], "bookies"),
    ],
)
def test_bad_usage_exits_with_2_and_prints_one_line(arguments: list[object], said: str) -> None:
    done = mledger(*arguments, url=NOWHERE)
    assert done.code == 2, done
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("mledger: ")


def test_without_a_metadata_store_the_line_says_how_to_name_one() -> None:
    done = mledger("topics", "list")
    assert done.code == 2
    assert "--metadata" in done.err
    assert "MLEDGER_METADATA" in done.err


def test_a_bad_value_in_a_broker_conf_is_refused_by_its_key(tmp_path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("managedLedgerDefaultEnsembleSize=many\n")
    done = mledger("topics", "create", TOPIC, "--config", conf, url=NOWHERE)
    assert done.code == 2
    assert "managedLedgerDefaultEnsembleSize" in done.err


def test_options_may_come_before_the_noun_and_the_later_one_wins() -> None:
    done = mledger("--metadata", "http://first", "topics", "list", "--metadata", "ftp://second")
    assert done.code == 2
    assert "second" in done.err


@pytest.mark.parametrize("arguments", [[], ["topics"], ["cursors"], ["metadata"]])
def test_an_incomplete_command_shows_its_help(arguments: list[str]) -> None:
    done = mledger(*arguments)
    assert done.code == 2
    assert "Usage: mledger" in done.err


def test_help_and_version_work_as_a_process() -> None:
    assert "Exit codes" in mledger_process("--help").out
    assert "0.1.0" in mledger_process("--version").out

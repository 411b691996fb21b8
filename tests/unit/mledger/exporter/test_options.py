"""The options of the exporter."""

import pytest

from mledger.exporter.options import parse_exporter_options


def test_metrics_are_served_on_loopback_unless_a_host_is_given():
    assert parse_exporter_options(["--metadata", "zk://a:1"]).host == "127.0.0.1"
    assert parse_exporter_options(["--metadata", "zk://a:1", "--host", "10.0.0.1"]).host == "10.0.0.1"


def test_the_limit_of_ranges_is_that_of_the_broker_s_settings():
    key = "managedLedgerMaxUnackedRangesToPersistInMetadataStore"
    options = parse_exporter_options(["--metadata", "zk://a:1", "--set", f"{key}=77"])
    assert options.config.max_unacked_ranges_to_persist_in_metadata_store == 77


def test_the_environment_names_the_metadata_store(monkeypatch):
    monkeypatch.setenv("MLEDGER_METADATA", "zk://b:2")
    assert parse_exporter_options([]).metadata == "zk://b:2"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--metadata", "http://a:1"],
        ["--metadata", "zk://a:1", "--rate", "0"],
        ["--metadata", "zk://a:1", "--rate", "inf"],
        ["--metadata", "zk://a:1", "--interval", "-1"],
        ["--metadata", "zk://a:1", "--interval", "nan"],
        ["--metadata", "zk://a:1", "--worst", "-1"],
        ["--metadata", "zk://a:1", "--port", "70000"],
        ["--metadata", "zk://a:1", "--set", "managedLedgerMaxUnackedRangesToPersistInMetadataStore=x"],
    ],
)
def test_a_bad_option_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_exporter_options(arguments)
    assert ended.value.code == 2
    assert "mledger exporter: error:" in capsys.readouterr().err

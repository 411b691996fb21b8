"""The options of a broker process: where settings come from, and which addresses they mean."""

import pytest

from mledger.broker.process.options import parse_broker_options, plan_addresses, plan_web_url

METADATA = ["--metadata", "zk://127.0.0.1:2181"]


def test_an_option_wins_over_set_and_set_over_the_file(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("brokerServicePort=6651\nkeepAliveIntervalSeconds=7\nclusterName=west\n")
    options = parse_broker_options(
        [*METADATA, "--config", str(path), "--set", "keepAliveIntervalSeconds=8", "--port", "0"]
    )
    assert (options.port, options.broker.keep_alive_s, options.broker.cluster_name) == (0, 8.0, "west")


def test_the_port_is_pulsars_by_default():
    assert parse_broker_options(METADATA).port == 6650


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*METADATA, "--set", "keepAliveIntervalSeconds=soon"], "keepAliveIntervalSeconds is 'soon'"),
        ([*METADATA, "--set", "subscriptionTypesEnabled=Exclusive,Wide"], "subscriptionTypesEnabled"),
        ([*METADATA, "--set", "managedLedgerDefaultAckQuorum=9"], "ack quorum 9"),
        ([*METADATA, "--port", "70000"], "--port"),
        ([], "--metadata"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv("MLEDGER_METADATA", raising=False)
    with pytest.raises(SystemExit):
        parse_broker_options(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "bind", "advertised", "expected"),
    [
        ("", "", "", ("127.0.0.1", "127.0.0.1")),
        ("", "0.0.0.0", "", ("127.0.0.1", "127.0.0.1")),
        ("", "10.0.0.5", "", ("10.0.0.5", "10.0.0.5")),
        ("", "", "broker-1", ("0.0.0.0", "broker-1")),
        ("", "0.0.0.0", "broker-1", ("0.0.0.0", "broker-1")),
        ("", "10.0.0.5", "broker-1", ("10.0.0.5", "broker-1")),
        ("", "", "localhost", ("127.0.0.1", "localhost")),
        ("10.0.0.5", "", "", ("10.0.0.5", "10.0.0.5")),
        ("10.0.0.5", "", "broker-1", ("10.0.0.5", "broker-1")),
    ],
)
def test_addresses(host, bind, advertised, expected):
    assert plan_addresses(host, bind, advertised) == expected


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        (["--metrics-port", "0"], "http://127.0.0.1:8000"),
        (["--metrics-port", "0", "--metrics-host", "10.0.0.5"], "http://10.0.0.5:8000"),
        (["--metrics-port", "0", "--metrics-host", "0.0.0.0", "--host", "broker-1"], "http://broker-1:8000"),
        (["--metrics-port", "0", "--metrics-host", "::1"], "http://[::1]:8000"),
    ],
)
def test_the_url_of_figures_leads_to_where_they_are_served(arguments, url):
    assert plan_web_url(parse_broker_options([*METADATA, *arguments]), 8000) == url

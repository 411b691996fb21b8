"""The options of a standalone: what they mean for its bookies and its broker, and which are refused."""

import pytest

from mledger.metastore.errors import InvalidMetadataUrl, InvalidSetting
from mledger.standalone.options import (
    DEFAULT_DIRECTORY,
    StandaloneOptions,
    parse_standalone_options,
    plan_bookie_options,
    plan_standalone_broker,
)

URL = "rocksdb:/data/metadata"


def test_the_data_is_kept_and_the_ports_are_pulsars_by_default():
    options = parse_standalone_options([])
    broker = plan_standalone_broker(options, 1, URL)
    assert (options.data_dir, options.bookies, options.metadata) == (DEFAULT_DIRECTORY, None, "")
    assert (broker.port, broker.metrics, broker.metadata) == (6650, ("127.0.0.1", 8080), URL)


def test_an_option_wins_over_set_and_set_over_the_file(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("brokerServicePort=6651\nwebServicePort=8081\nkeepAliveIntervalSeconds=7\nclusterName=west\n")
    options = parse_standalone_options(
        ["--broker-conf", str(path), "--set", "keepAliveIntervalSeconds=8", "--port", "0", "--data-dir", "data"]
    )
    broker = plan_standalone_broker(options, 1, URL)
    assert (broker.port, broker.metrics) == (0, ("127.0.0.1", 8081))
    assert (broker.broker.keep_alive_s, broker.broker.cluster_name) == (8.0, "west")


def test_the_http_port_is_a_setting_with_an_effect():
    options = StandaloneOptions(settings=("webServicePort=8081", "additionalServlets=a"))
    assert plan_standalone_broker(options, 1, URL).owner.without_effect == ("additionalServlets",)


@pytest.mark.parametrize("key", ["metadataStoreUrl", "zookeeperServers"])
def test_the_metadata_store_of_a_broker_conf_does_not_count(tmp_path, key):
    path = tmp_path / "broker.conf"
    path.write_text(f"{key}=oxia:elsewhere\n")
    assert plan_standalone_broker(StandaloneOptions(broker_conf=str(path)), 1, URL).metadata == URL


@pytest.mark.parametrize(
    ("bookies", "settings", "copies"),
    [
        (1, (), (1, 1, 1)),
        (1, ("managedLedgerDefaultAckQuorum=2",), (2, 2, 2)),
        (3, (), (2, 2, 2)),
        (3, ("managedLedgerDefaultEnsembleSize=3",), (3, 2, 2)),
    ],
)
def test_one_bookie_means_one_copy_unless_a_setting_says_how_many(bookies, settings, copies):
    config = plan_standalone_broker(StandaloneOptions(settings=settings), bookies, URL).owner.config
    assert (config.ensemble_size, config.write_quorum_size, config.ack_quorum_size) == copies


def test_cursors_are_persisted_often_unless_a_setting_says_how_often():
    given = ("managedLedgerDefaultMarkDeleteRateLimit=3",)
    assert plan_standalone_broker(StandaloneOptions(), 1, URL).owner.config.throttle_mark_delete == 10
    assert plan_standalone_broker(StandaloneOptions(settings=given), 1, URL).owner.config.throttle_mark_delete == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ephemeral", "--data-dir", "data"], "not allowed with argument"),
        (["--ephemeral", "--metadata", "zk://a:2181"], "--ephemeral excludes --metadata"),
        (["--moved", "--metadata", "zk://a:2181"], "--moved excludes --metadata"),
        (["--moved", "--ephemeral"], "--moved excludes --ephemeral"),
        (["--metadata", "memory:"], "leave --metadata out"),
        (["--metadata", "a:2181"], "is not a metadata URL"),
        (["--bookies", "17"], "--bookies 17: a number from 1 to 16"),
        (["--port", "70000"], "--port 70000: a number from 0 to 65,535"),
        (["--http-port", "-1"], "--http-port -1: a number from 0 to 65,535"),
        (["--broker-conf", "/none/broker.conf"], "/none/broker.conf cannot be read"),
        (["--set", "webServicePort=high"], "webServicePort is 'high'"),
        (["--set", "managedLedgerDefaultAckQuorum=9"], "ack quorum 9"),
        (["--output", "yaml"], "--output"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(arguments, message, capsys):
    with pytest.raises(SystemExit):
        parse_standalone_options(arguments)
    assert message in capsys.readouterr().err


def test_programs_get_the_error_itself():
    with pytest.raises(InvalidSetting, match="--bookies 0"):
        StandaloneOptions(bookies=0).check()
    with pytest.raises(InvalidMetadataUrl):
        StandaloneOptions(metadata="elsewhere").check()


def test_settings_of_tls_and_of_authentication_hold(tmp_path):
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    settings = (
        "brokerServicePortTls=6651",
        f"tlsCertificateFilePath={tmp_path}/cert.pem",
        f"tlsKeyFilePath={tmp_path}/key.pem",
        "authenticationEnabled=true",
        "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey=data:;base64,c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=",
    )
    broker = plan_standalone_broker(StandaloneOptions(settings=settings), 1, URL)
    assert broker.tls.port == 6651
    assert broker.security.authentication


def test_a_wrong_setting_of_authentication_is_refused_before_anything_starts(capsys):
    with pytest.raises(SystemExit):
        parse_standalone_options(
            ["--set", "authenticationEnabled=true", "--set", "authenticationProviders=org.example.Unknown"]
        )
    assert "org.example.Unknown" in capsys.readouterr().err


def test_a_bookie_syncs_what_is_kept_and_nothing_of_a_temporary_directory():
    kept, temporary = parse_standalone_options([]), parse_standalone_options(["--ephemeral"])
    assert (kept.ephemeral, temporary.ephemeral) == (False, True)
    assert plan_bookie_options(kept, URL, "bookie-1").storage.sync
    assert not plan_bookie_options(temporary, URL, "bookie-1").storage.sync

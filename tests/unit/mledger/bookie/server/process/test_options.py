"""How a bookie reads options, --set and a bookkeeper.conf."""

import pytest

from mledger.bookie.server.process.garbage import EVERY_TIME, Compaction
from mledger.bookie.server.process.known_settings import KNOWN
from mledger.bookie.server.process.options import BookieOptions, parse_options
from mledger.bookie.server.storage.directories.disk import DiskLimits

BASE = ("--metadata", "memory:", "--dir", "/d")
SHIPPED = """\
# as Pulsar ships it, comments left out
bookiePort=3181
journalDirectory=data/bookkeeper/journal
minUsableSizeForIndexFileCreation=1073741824
advertisedAddress=
allowLoopback=false
gcWaitTime=900000
nettyMaxFrameSizeBytes=5253120
journalMaxSizeMB=2048
ledgerDirectories=data/bookkeeper/ledgers
zkLedgersRootPath=/ledgers
minorCompactionThreshold=0.2
minorCompactionInterval=3600
majorCompactionThreshold=0.5
majorCompactionInterval=86400
statsProviderClass=org.apache.bookkeeper.stats.prometheus.PrometheusMetricsProvider
prometheusStatsHttpPort=8000
readOnlyModeEnabled=true
diskCheckInterval=10000
metadataServiceUri=
zkServers=localhost:2181
zkTimeout=30000
httpServerEnabled=false
httpServerPort=8080
"""


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv("MLEDGER_METADATA", raising=False)


def options(*arguments: str) -> BookieOptions:
    """The options of a command line that names a metadata store and a directory."""
    return parse_options([*BASE, *arguments])


def refused(capsys, *arguments: str) -> str:
    """Why a command line is refused."""
    with pytest.raises(SystemExit) as ended:
        parse_options(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_no_request_or_turn_may_exceed_a_record_of_the_journal(capsys):
    assert "--max-frame is at most 536870912" in refused(capsys, *BASE, "--max-frame", str((1 << 29) + 1))
    assert "nettyMaxFrameSizeBytes" in refused(capsys, *BASE, "--set", f"nettyMaxFrameSizeBytes={(1 << 29) + 1}")
    assert options("--set", "journalMaxMemorySizeMb=4096").storage.turn_bytes == 1 << 28


def test_without_settings_a_bookie_serves_on_loopback_without_metrics():
    found = options()
    assert (found.host, found.announced, found.port, found.metrics) == ("127.0.0.1", "127.0.0.1", 0, None)
    assert (found.compactions, found.disk.full_share) == (EVERY_TIME, DiskLimits().full_share)


def test_pulsar_s_bookkeeper_conf_is_read_as_it_is(tmp_path):
    path = tmp_path / "bookkeeper.conf"
    path.write_text(SHIPPED)
    found = parse_options(["--config", str(path)])
    assert found.metadata == "zk://localhost:2181"
    assert (found.directory, found.journal) == ("data/bookkeeper/ledgers", "data/bookkeeper/journal")
    assert (found.port, found.ledgers_root, found.session_timeout) == (3181, "/ledgers", 30.0)
    assert (found.garbage_interval, found.disk.look_s) == (900.0, 10.0)
    assert found.compactions == (Compaction(0.2, 3600.0), Compaction(0.5, 86400.0))
    assert found.storage.max_frame == 5253120
    assert found.metrics == ("127.0.0.1", 8000)
    assert set(found.settings.given) <= KNOWN


def test_an_option_wins_over_set_and_set_over_the_file(tmp_path):
    path = tmp_path / "bookkeeper.conf"
    path.write_text("bookiePort=1000\nzkTimeout=1000\ngcWaitTime=1000\nbookieId=file\n")
    found = options("--config", str(path), "--set", "bookiePort=2000", "--set", "gcWaitTime=2000", "--port", "3000")
    assert (found.port, found.garbage_interval, found.session_timeout, found.bookie_id) == (3000, 2.0, 1.0, "file")


def test_port_0_as_an_option_wins_too():
    assert options("--set", "bookiePort=2000", "--port", "0").port == 0


def test_the_directory_option_moves_the_journal_too():
    assert options("--set", "journalDirectory=/j").journal == ""
    assert options("--set", "journalDirectory=/j", "--journal-dir", "/k").journal == "/k"


@pytest.mark.parametrize(
    ("given", "host", "announced"),
    [
        ("advertisedAddress=bookie-1.example", "0.0.0.0", "bookie-1.example"),
        ("advertisedAddress=127.0.0.3", "127.0.0.3", "127.0.0.3"),
        ("listeningInterface=lo", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_bookie_listens_at_its_advertised_address(given, host, announced):
    found = options("--set", given)
    assert (found.host, found.announced) == (host, announced)


@pytest.mark.parametrize(
    ("uri", "url", "root"),
    [
        ("zk+hierarchical://a:1;b:2/ledgers", "zk://a:1,b:2", "/ledgers"),
        ("zk+hierarchical://a:1/pulsar/ledgers", "zk://a:1", "/pulsar/ledgers"),
        ("metadata-store:zk:a:1/ledgers", "zk://a:1", "/ledgers"),
        ("zk://a:1", "zk://a:1", "/ledgers"),
    ],
)
def test_a_metadata_service_uri_names_store_and_root(uri, url, root):
    found = parse_options(["--dir", "/d", "--set", f"metadataServiceUri={uri}", "--set", "zkServers=other:1"])
    assert (found.metadata, found.ledgers_root) == (url, root)


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        (["httpServerEnabled=true"], ("127.0.0.1", 8080)),
        (["httpServerEnabled=true", "httpServerPort=1", "httpServerHost=0.0.0.0"], ("0.0.0.0", 1)),
        (["prometheusStatsHttpPort=2", "prometheusStatsHttpAddress=0.0.0.0"], ("0.0.0.0", 2)),
        (["prometheusStatsHttpPort=2", "enableStatistics=false"], None),
        (["prometheusStatsHttpPort=2", "statsProviderClass=x.CodahaleMetricsProvider"], None),
        (["statsProviderClass=x.PrometheusMetricsProvider"], None),
    ],
)
def test_metrics_are_served_where_bookkeeper_s_settings_say(settings, where):
    found = options(*(part for setting in settings for part in ("--set", setting)))
    assert found.metrics == where


def test_disk_and_memory_limits_are_set():
    found = options(
        *(
            "--set",
            "diskUsageThreshold=0.8",
            "--set",
            "diskUsageLwmThreshold=0.7",
            "--set",
            "diskUsageWarnThreshold=0.5",
        ),
        *(
            "--set",
            "journalMaxMemorySizeMb=2",
            "--set",
            "mledgerMaxConnections=7",
            "--set",
            "readOnlyModeEnabled=false",
        ),
    )
    assert found.disk == DiskLimits(256 << 20, 0.8, 0.5, 0.7, 5.0, True)
    assert (found.storage.turn_bytes, found.max_connections) == (2 << 20, 7)


def test_a_journal_file_is_never_larger_than_our_limit():
    assert options("--set", "journalMaxSizeMB=2048").storage.journal_file_bytes == 64 << 20
    assert options("--set", "journalMaxSizeMB=16").storage.journal_file_bytes == 16 << 20
    assert options("--set", "journalMaxSizeMB=16", "--journal-mb", "128").storage.journal_file_bytes == 128 << 20


def test_a_compaction_threshold_at_or_below_zero_switches_it_off():
    assert options("--set", "minorCompactionThreshold=-1").compactions == (Compaction(0.8, 86400.0),)
    assert options("--set", "majorCompactionInterval=0").compactions == (Compaction(0.2, 3600.0),)


@pytest.mark.parametrize(
    ("setting", "need"),
    [
        ("bookiePort=x", "a whole number from 0 to 65,535 is needed"),
        ("diskUsageThreshold=1.5", "a number from 0 to 1 is needed"),
        ("minorCompactionThreshold=2", "a share up to 1 is needed"),
        ("ledgerDirectories=/a,/b", "name one directory"),
        ("zkServers=a:b", "not a host and port"),
        ("metadataServiceUri=etcd:x", "etcd is not supported"),
        ("readOnlyModeEnabled=maybe", "true or false is needed"),
        ("listeningInterface=none0", "no such network interface"),
        ("bookieAuthProviderFactoryClass=org.example.Auth", "MODULE:FACTORY"),
        ("tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory", "tlsKeyStoreType=PEM"),
        ("tlsProviderFactoryClass=org.example.Tls", "BookKeeper's own TLS only"),
        ("tlsKeyStoreType=JKS\ntlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory", "PEM files only"),
        ("bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory", "no SASL"),
        (
            "bookieAuthProviderFactoryClass=org.apache.bookkeeper.tls.BookieAuthZFactory\nauthorizedRoles=broker",
            "tlsProviderFactoryClass, tlsClientAuthentication=true not set",
        ),
        ("bookieAuthProviderFactoryClass=BookieAuthZFactory\ntlsClientAuthentication=true", "authorizedRoles"),
        ("zkEnableSecurity=true", "?config=FILE"),
        ("diskUsageLwmThreshold=1", ""),
    ],
)
def test_a_bad_value_is_refused_with_its_place_and_what_is_needed(tmp_path, capsys, setting, need):
    path = tmp_path / "bookkeeper.conf"
    path.write_text(f"# first\n{setting}\ndiskUsageThreshold=0.9\n" if not need else f"# first\n{setting}\n")
    said = refused(capsys, *BASE, "--config", str(path))
    assert f"{path}:2: {setting.partition('=')[0]}" in said
    assert need in said


def test_required_options_are_asked_for(capsys):
    assert "--metadata" in refused(capsys, "--dir", "/d")
    assert "ledgerDirectories" in refused(capsys, "--metadata", "memory:")
    assert "cannot be read" in refused(capsys, *BASE, "--config", "/no/such.conf")
    assert "--max-connections must be a number above 0" in refused(capsys, *BASE, "--max-connections", "0")


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize("option", ["--session-timeout", "--gc-interval", "--gc-grace"])
def test_a_time_that_is_no_finite_number_is_refused(capsys, option, value):
    assert f"{option} must be a number" in refused(capsys, *BASE, option, value)

"""The rules and the dashboard of `deploy/`: they name metrics that exist, and a real Prometheus fires every rule."""

import contextlib
import json
import re
from pathlib import Path

import pytest
import yaml

from mledger.exporter.orphan_suspects import YOUNG_MS
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.underreplication import UnderreplicatedLedger, encode_underreplicated_ledger
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import ledger_path, underreplicated_path
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses
from tests.support.exporter.exporter_process import ExporterRun
from tests.support.exporter.prometheus_process import PrometheusRun, missing_programs, promtool

ROOT = Path(__file__).parents[4]
RULES = ROOT / "deploy/prometheus/mledger.rules.yaml"
DASHBOARD = json.loads((ROOT / "deploy/grafana/mledger-cluster.json").read_text())
JOB = "mledger-exporter"
QUICK = ("--interval", "0.2", "--timeout", "1", "--session-timeout", "4", "--ask-bookies")
TOPICS = "/managed-ledgers/a"
NAME = "a/b/persistent/t"
LAST = {"MledgerMetadataUnavailable", "MledgerExporterDown", "MledgerReadingOld"}
"""Alerts of an exporter or a store that is away."""

SLOW_ALERTS = """
rule_files: [{rules}]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - series: mledger_exporter_reading_age_seconds
        values: 0+30x60
      - series: mledger_cluster_bookie{{bookie="b:1",state="missing"}}
        values: 1x60
    alert_rule_test:
      - {{eval_time: 9m, alertname: MledgerBookieMissing}}
      - {{eval_time: 10m, alertname: MledgerReadingOld}}
      - eval_time: 12m
        alertname: MledgerBookieMissing
        exp_alerts:
          - exp_labels: {{severity: critical, bookie: "b:1", state: missing}}
            exp_annotations:
              summary: Bookie b:1 is not registered
              description: It has a cookie, so it may hold entries. `mledger bookies describe` names its ledgers.
      - eval_time: 20m
        alertname: MledgerReadingOld
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations:
              summary: The figures of the cluster are 20m 0s old
              description: Rounds fail or take long. /health of the exporter says why the last one failed.
"""


def rules():
    """Every rule."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions():
    """Every query of the dashboard."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.fixture
def bookie_at(tmp_path):
    """Starts a bookie of the cluster at a URL."""
    with contextlib.ExitStack() as running:

        def start(url):
            bookies = BookieProcesses(url, tmp_path / "bookies")
            running.callback(bookies.close)
            bookies.start(1)

        yield start


@pytest.fixture
def programs():
    """Prometheus's programs."""
    if missing := missing_programs():
        pytest.skip(f"{' and '.join(missing)} not found: install Prometheus (Debian: apt-get install prometheus)")


def test_rules_and_dashboard_name_documented_metrics():
    documented = set(re.findall(r"`(mledger_\w+)", (ROOT / "docs/reference/monitoring.md").read_text()))
    queries = [*(rule["expr"] for rule in rules()), *expressions()]
    named = {name for query in queries for name in re.findall(r"mledger_\w+", query)}
    assert named - documented == set()
    exported = {name for name in documented if name.startswith(("mledger_cluster_", "mledger_exporter_"))}
    shown_elsewhere = {"mledger_exporter_round_requests", "mledger_exporter_rounds_total"}
    detail = {"mledger_cluster_entries", "mledger_cluster_holes", "mledger_cluster_untrimmed_ledgers"}
    assert exported - named == shown_elsewhere | detail | {"mledger_cluster_unnamed_ledgers_unchecked"}


def test_every_alert_says_what_it_is_and_what_to_do():
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_panels_of_the_dashboard_do_not_overlap():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(place["x"] + x, place["y"] + y) for place in places for x in range(place["w"]) for y in range(place["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


@pytest.mark.prometheus
@pytest.mark.usefixtures("programs")
def test_promtool_accepts_the_rules_and_the_queries_of_the_dashboard(tmp_path):
    checked = promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stderr
    queries = [query.replace("$namespace", ".*") for query in expressions()]
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    written = tmp_path / "queries.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    checked = promtool("check", "rules", written)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.prometheus
@pytest.mark.usefixtures("programs")
def test_an_alert_fires_once_it_has_lasted(tmp_path):
    written = tmp_path / "alerts.yaml"
    written.write_text(SLOW_ALERTS.format(rules=RULES))
    tested = promtool("test", "rules", written)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.prometheus
@pytest.mark.usefixtures("programs")
def test_a_real_prometheus_fires_every_rule_on_a_cluster_with_these_faults(zookeeper_server, bookie_at, tmp_path):
    run(make_faulty_cluster(zookeeper_server.url))
    bookie_at(zookeeper_server.url)
    hasty = tmp_path / "rules.yaml"
    hasty.write_text(re.sub(r"for: \w+", "for: 0s", RULES.read_text()).replace("> 600", "> 3").replace("< 0.1", "<= 1"))
    named = {rule["alert"] for rule in rules()}
    with (
        ExporterRun(zookeeper_server.url, tmp_path / "log", QUICK) as exporter,
        PrometheusRun(tmp_path, hasty, JOB, exporter.port) as prometheus,
    ):
        alerts = run(prometheus.firing_when(named - LAST))
        zookeeper_server.kill()
        run(prometheus.firing_when(["MledgerMetadataUnavailable", "MledgerReadingOld"]))
        exporter.stop()
        run(prometheus.firing_when(["MledgerExporterDown"]))
    old = next(alert for alert in alerts if alert["labels"]["alertname"] == "MledgerBacklogOld")
    assert old["labels"]["topic"] == "persistent://a/b/t"
    assert old["annotations"]["summary"].startswith("sub of persistent://a/b/t is ")


async def make_faulty_cluster(url):
    """Make what every rule warns of, with times of 1970."""
    topic = ManagedLedgerInfo((LedgerInfo(1, 5000, 50, 1000), LedgerInfo(2, 5, 50, 2000), LedgerInfo(3)))
    ranges = tuple(PositionRange(Position(1, 2 * at), Position(1, 2 * at + 1)) for at in range(1, 900))
    nodes = {
        "/ledgers/cookies/b:1": b"",
        "/ledgers/available/readonly/c:1": b"",
        underreplicated_path(1): encode_underreplicated_ledger(UnderreplicatedLedger(("b:1",), 1000)),
        "/ledgers/underreplication/disable": b"",
        f"/managed-ledgers/{NAME}": encode_managed_ledger_info(topic),
        f"/managed-ledgers/{NAME}/sub": encode_managed_cursor_info(
            ManagedCursorInfo(mark_delete=Position(1, 0), ranges=ranges)
        ),
        f"{TOPICS}/b/persistent/large": bytes(900_000),
        f"{TOPICS}/half/persistent/t": encode_managed_ledger_info(topic),
        "/admin/policies/a/half": b'{"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":0}}',
        ledger_path(9): encode_ledger_metadata(
            LedgerMetadata(
                *(1, 1, 1),
                segments=(Segment(0, ("b:1",)),),
                ctime=YOUNG_MS,
                custom_metadata=(("component", b"managed-ledger"), ("pulsar/managed-ledger", NAME.encode())),
            )
        ),
    }
    async with await open_store(url, create_chroot=True) as store:
        await initialize(store)
        for path, data in nodes.items():
            await store.create(path, data, parents=True)

"""`mledger report` of a directory into which several clusters export."""

import json

from tests.support.cli import answer, mledger
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import HOUR, NOW, TOPIC, listed, topic


def write_night(to, name, time, source):
    """A snapshot of a topic, read from `source`."""
    place = write_snapshot(
        to,
        name,
        time,
        topics=[topic(TOPIC, 1, 1, 1, 10, cursors=0, ledgers=1, created=NOW)],
        topic_ledgers=[listed(TOPIC, 1, 1, 10, NOW)],
    )
    manifest = place / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"source": source}))


def test_it_compares_the_newest_snapshot_with_those_of_its_own_cluster(tmp_path):
    kept, page = tmp_path / "kept", tmp_path / "report.html"
    for hours, (name, source) in enumerate((("a-1", "zk://a:2181"), ("b-1", "zk://b:2181"), ("a-2", "zk://a:2181"))):
        write_night(kept, name, NOW + hours * HOUR, source)
    done = mledger("report", kept, "--to", page)
    assert "of snapshots of zk://a:2181; 1 that were read from other places are left out" in done.out
    assert "<dd>a-1, " in page.read_text()
    assert "b-1" not in page.read_text()


def test_the_first_snapshot_of_a_cluster_is_compared_with_none(tmp_path):
    kept, page = tmp_path / "kept", tmp_path / "report.html"
    write_night(kept, "a-1", NOW, "zk://a:2181")
    write_night(kept, "b-1", NOW + HOUR, "zk://b:2181")
    assert answer("report", kept, "--to", page)["snapshot"] == "b-1"
    assert "compared with" not in page.read_text()
    assert "Trends" not in page.read_text()

"""Which snapshots commands take of a directory with those of several clusters, or of clocks that were ahead."""

import json
from datetime import UTC, datetime

import pytest

from tests.support.cli import answer, mledger
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import HOUR, NOW

FUTURE = datetime(2999, 1, 1, tzinfo=UTC)


def write_night(to, name, time, source="zk://a:2181", **options):
    """A snapshot with a tenant of its name, read from `source` with `options`."""
    manifest = write_snapshot(to, name, time, tenants=[{"tenant": name}]) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"source": source, "options": options}))


@pytest.fixture
def kept(tmp_path):
    for hours, name in enumerate(("a-1", "b-1", "a-2", "b-2")):
        write_night(tmp_path, name, NOW + hours * HOUR, f"zk://{name[0]}:2181")
    return tmp_path


def test_a_directory_is_compared_with_a_snapshot_by_its_newest_one_of_the_same_cluster(kept):
    done = mledger("snapshot", "diff", kept / "snapshot=a-1", kept, "--output", "json")
    assert (done.json["a"], done.json["b"], done.err) == ("a-1", "a-2", "")


def test_an_older_snapshot_in_a_directory_is_of_the_same_cluster(kept):
    done = mledger("snapshot", "diff", kept, kept / "snapshot=a-2", "--output", "json")
    assert (done.json["a"], done.json["b"], done.err) == ("a-1", "a-2", "")


def test_two_snapshots_of_different_clusters_are_compared_with_a_warning(kept):
    done = mledger("snapshot", "diff", kept / "snapshot=a-1", kept / "snapshot=b-2")
    assert done.code == 0
    assert "warning: a-1 is of zk://a:2181, b-2 of zk://b:2181: what differs between them" in done.err


def test_a_directory_of_several_clusters_is_asked_with_a_warning_of_which_is_shown(kept):
    done = mledger("snapshot", "ask", kept, "storage_by_tenant")
    assert (
        f"warning: {kept} also has snapshots of other clusters or other parts of one (2); this is b-2, of" in done.err
    )
    assert mledger("snapshot", "ask", kept / "snapshot=a-1", "storage_by_tenant").err == ""


def test_the_newest_is_not_one_from_the_future(tmp_path):
    write_night(tmp_path, "now", NOW)
    write_night(tmp_path, "ahead", FUTURE)
    done = mledger("snapshot", "verify", tmp_path, "--output", "json")
    assert done.json["name"] == "now"
    assert "the snapshot ahead is left out: its time, 2999-01-01T00:00:00.000Z, is ahead of this machine" in done.err
    page = tmp_path / "report.html"
    assert answer("report", tmp_path, "--to", page)["snapshot"] == "now"
    assert "ahead, " not in page.read_text()

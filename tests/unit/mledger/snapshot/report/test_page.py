"""The pages of a report: how large the first one gets, and what it links."""

from mledger.snapshot.report.page import LINKED, ReportRequest, write_namespace_pages, write_report
from mledger.snapshot.sql.queries import open_snapshots
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import NOW, cursor, listed, topic

MIB = 1 << 20
NAMESPACES = LINKED + 100


def test_the_first_page_stays_small_with_more_namespaces_than_it_links(tmp_path):
    spaces = [f"a-tenant-of-some-length-{at % 50}/a-namespace-with-quite-a-long-name-{at}" for at in range(NAMESPACES)]
    names = [f"persistent://{space}/{'a-topic-with-a-long-name-' * 4}" for space in spaces]
    now = write_snapshot(
        tmp_path,
        "now",
        NOW,
        topics=[
            topic(name, at, at, 7, 700, cursors=1, ledgers=1, created=NOW) | {"namespace": space}
            for at, (name, space) in enumerate(zip(names, spaces, strict=True))
        ],
        topic_ledgers=[listed(name, at, 7, 700, NOW) for at, name in enumerate(names)],
        cursors=[cursor(name, "a-subscription", at, 3) for at, name in enumerate(names)],
    )
    with open_snapshots(str(now)) as snapshots:
        page = write_report(snapshots, ReportRequest(200, in_pages=True))
    assert page.count('<a href="namespaces/') == LINKED
    assert len(page.encode()) < 5 * MIB


def test_a_page_of_a_namespace_has_its_own_topics_only(tmp_path):
    topics = [
        topic(f"persistent://t/{name}", 1, 1, 7, 700, cursors=0, ledgers=1, created=NOW) | {"namespace": f"t/{name[0]}"}
        for name in ("a/1", "a/2", "a/3", "b/1")
    ]
    now = write_snapshot(tmp_path, "now", NOW, topics=topics)
    with open_snapshots(str(now)) as snapshots:
        pages = dict(write_namespace_pages(snapshots, ReportRequest(2, in_pages=True)))
    assert sorted(pages) == ["namespaces/t+a.html", "namespaces/t+b.html"]
    assert pages["namespaces/t+a.html"].count("persistent://t/a/") == 2
    assert "3 in all, the first 2 shown" in pages["namespaces/t+a.html"]
    assert "persistent://t/a/" not in pages["namespaces/t+b.html"]

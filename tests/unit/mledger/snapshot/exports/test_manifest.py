"""What a snapshot's manifest says, which export continues another, and which snapshots are kept: without I/O."""

from dataclasses import replace

import pytest

from mledger.snapshot.exports.errors import InvalidManifest, InvalidSnapshotName
from mledger.snapshot.exports.exporter import plan_workers
from mledger.snapshot.exports.manifest import (
    FileRecord,
    Manifest,
    check_name,
    decode_manifest,
    default_name,
    encode_manifest,
    fingerprint,
    request_of,
    tables_of,
)
from mledger.snapshot.exports.steps import ExportPlan, decode_plan, may_resume, share_of, step_of
from mledger.snapshot.source.splits import KindShare, LedgerShare, TopicRange, TopicShare
from mledger.snapshot.tables.node_kinds import NodeKind

REQUEST = request_of({"metadata": "zk://h:1/c", "tenant": "t"}, "pyarrow", "parquet")
MANIFEST = Manifest(
    name="monday",
    time_ms=1_700_000_000_123,
    zxid=0x500000001,
    request=REQUEST,
    started_ms=1,
    finished_ms=2,
    warnings=("careful",),
    tables=tables_of([("topics", FileRecord("topics/part-0.parquet", 3, 99, "ab"))], "monday"),
)
PLAN = ExportPlan("monday", fingerprint(REQUEST), 7, None, 1000, (), ({"ledgers": ["/ledgers/00"]},))


def test_a_manifest_is_read_back_as_written():
    for each in (MANIFEST, replace(MANIFEST, since="sunday", cluster="2cfc8d5e")):
        assert decode_manifest(encode_manifest(each), "here") == each


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format":1}', b'{"format":9,"schema_version":1}', b"\xff"])
def test_anything_else_is_refused_by_its_place(data):
    with pytest.raises(InvalidManifest, match="here"):
        decode_manifest(data, "here")


def test_requests_contain_no_credentials_and_nothing_that_leaves_the_rows_unchanged():
    options = {"metadata": "zk://user:secret@h:1/c", "rate": "5", "password": "secret", "partitions": "3"}
    request = request_of(options, "pyarrow", "parquet")
    assert (request.source, request.options) == ("zk://h:1/c", ())


def test_requests_contain_no_credentials_of_the_logs_place():
    options = {"metadata": "s3://key:secret@bucket/data", "logs": "s3://key:secret@bucket/logs"}
    assert request_of(options, "pyarrow", "parquet").origin == ("s3://bucket/data", "s3://bucket/logs", None)


def test_requests_contain_no_endpoint_and_no_keys_of_a_uri_s_query():
    options = {"metadata": "s3://k:s@b/data?endpoint_override=h%3A9000", "logs": "abfs://a@h/logs?client_secret=s"}
    assert request_of(options, "pyarrow", "parquet").origin == ("s3://b/data", "abfs://h/logs", None)


@pytest.mark.parametrize("place", ["/data@night?", "zkfiles:///data@night", "zk://h:1/c?config=/etc/login"])
def test_requests_name_a_directory_as_it_is(place):
    options = {"metadata": place, "logs": "/logs@night?", "chroot": "/a"}
    assert request_of(options, "pyarrow", "parquet").origin == (place, "/logs@night?", "/a")


def test_requests_differ_by_what_is_exported_and_by_whom():
    options = {"metadata": "zk://h:1"}
    requests = [
        request_of(options, "pyarrow", "parquet"),
        request_of(options | {"tenant": "t"}, "pyarrow", "parquet"),
        request_of(options, "spark", "parquet"),
        request_of(options, "spark", "delta"),
        request_of(options, "spark", "iceberg"),
        request_of({"metadata": "zk://h:2"}, "pyarrow", "parquet"),
    ]
    assert len({fingerprint(request) for request in requests}) == len(requests)


def test_exports_of_one_series_read_the_same_at_other_moments():
    options = {"metadata": "zk://h:1", "tenant": "t"}
    series = request_of(options, "pyarrow", "parquet").series
    assert request_of(options | {"zxid": "0x5b", "rate": "9"}, "spark", "delta").series == series
    for other in ({"tenant": "u"}, {"tenant": ""}, {"state": "recovered"}, {"metadata": "zk://h:2"}, {"chroot": "/c"}):
        assert request_of(options | other, "pyarrow", "parquet").series != series


def test_names_sort_by_time_and_distinguish_transactions_of_one_millisecond():
    assert default_name(1_700_000_000_123, None) == "20231114T221320.123Z"
    assert default_name(1_700_000_000_123, 0x5B) == "20231114T221320.123Z-zxid5b"
    assert default_name(None, 0x5B) == "zxid5b"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "_a", "a b", "a" * 101])
def test_a_name_that_is_not_a_plain_directory_name_is_refused(name):
    with pytest.raises(InvalidSnapshotName):
        check_name(name)


@pytest.mark.parametrize(
    "share",
    [
        TopicShare((TopicRange("/managed-ledgers/t/n/persistent", 1, 3),)),
        LedgerShare(("/ledgers/00/0001",)),
        KindShare(frozenset({NodeKind.BOOKIE, NodeKind.COOKIE})),
    ],
)
def test_a_step_is_the_share_that_it_was_made_of(share):
    assert share_of(step_of(share), None) == share


def test_a_plan_is_read_back_as_written_and_nothing_else_is():
    assert decode_plan(PLAN.encode()) == PLAN
    assert decode_plan(b"{}") is None
    assert decode_plan(PLAN.encode()[:-3]) is None


def test_a_plan_of_a_release_that_split_topics_by_name_is_not_continued():
    assert (
        decode_plan(replace(PLAN, steps=({"topics": [["/managed-ledgers/t/n/persistent", "a", "b"]]},)).encode())
        is None
    )


def test_an_old_live_export_is_not_continued_but_one_of_files_is():
    def resumes(live, now_ms, print_of=PLAN.fingerprint):
        return may_resume(PLAN, print_of, live=live, now_ms=now_ms, resume_within_ms=500)

    assert (resumes(True, 1500), resumes(True, 1501), resumes(False, 10**9)) == (True, False, True)
    assert not resumes(True, 1000, "another")


def test_a_live_export_that_started_while_the_clock_was_ahead_is_not_continued():
    ahead = replace(PLAN, started_ms=1_000_000)

    def resumes(now_ms):
        return may_resume(ahead, ahead.fingerprint, live=True, now_ms=now_ms, resume_within_ms=500)

    assert (resumes(999_500), resumes(999_499)) == (True, False)


def test_a_small_cluster_is_read_by_one_process():
    ledgers, topics = LedgerShare(("/ledgers/00",)), TopicShare(())
    assert plan_workers([ledgers, topics, KindShare(frozenset())]) == 1
    assert plan_workers([ledgers] * 3) >= 1

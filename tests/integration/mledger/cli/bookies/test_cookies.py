"""`bookies cookie` on a real cluster: refusals, warnings and undo."""

import pytest

from mledger.metastore.records.paths import cookie_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree

ELSEWHERE = "10.0.0.1:3181"


def test_an_invalid_cookie_file_is_refused_before_anything_is_written(url, tmp_path) -> None:
    file = tmp_path / "VERSION"
    file.write_text("not a cookie")
    before = tree(url)
    done = mledger("bookies", "cookie", "write", ELSEWHERE, "--file", file, "--yes", url=url)
    assert (done.code, tree(url)) == (1, before)
    assert str(file) in done.err


def test_a_cookie_of_another_bookie_is_refused(url, tmp_path) -> None:
    known = answer("bookies", "list", url=url)[0]["bookie_id"]
    file = tmp_path / "VERSION"
    file.write_text(ok("bookies", "cookie", "show", known, "--raw", url=url).out)
    done = mledger("bookies", "cookie", "write", ELSEWHERE, "--file", file, "--yes", url=url)
    assert done.code == 2
    assert known in done.err


def test_deleting_the_cookie_of_a_bookie_that_ledgers_name_warns(url, topic, written) -> None:
    named = answer("ledgers", "list", url=url)[-1]["ledger_id"]
    bookie = answer("ledgers", "describe", named, url=url)["ensembles"][0]["bookies"][0]
    ledgers = len(answer("ledgers", "list", "--bookie", bookie, url=url))
    planned = answer("bookies", "cookie", "delete", bookie, "--force", "--dry-run", url=url)
    assert planned["warnings"][1].startswith(f"ledgers that name it: {ledgers};")


def test_a_new_cookie_belongs_to_this_cluster_and_is_removed_by_undo(url, undo_file) -> None:
    made = ("--journal-dir", "/journal", "--ledger-dir", "/a", "--ledger-dir", "/b")
    ok("bookies", "cookie", "write", ELSEWHERE, *made, "--yes", "--undo-file", undo_file, url=url)
    shown = answer("bookies", "cookie", "show", ELSEWHERE, url=url)
    cluster = answer("bookies", "cluster", url=url)
    assert (shown["ledger_dirs"], shown["instance_id"]) == (["/a", "/b"], cluster["instance_id"])
    assert cluster["away"] == [ELSEWHERE]
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert mledger("bookies", "cookie", "show", ELSEWHERE, url=url).code == 3


def test_a_cookie_of_another_cluster_is_refused(url, tmp_path, undo_file) -> None:
    known = answer("bookies", "list", url=url)[0]["bookie_id"]
    cookie = ok("bookies", "cookie", "show", known, "--raw", url=url).out
    own, file = answer("bookies", "cluster", url=url)["instance_id"], tmp_path / "VERSION"
    file.write_text(cookie.replace(known, ELSEWHERE).replace(own, "another"))
    before = tree(url)
    done = mledger("bookies", "cookie", "write", ELSEWHERE, "--file", file, "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, tree(url)) == (2, before)
    assert f"a cookie of the cluster another, and this one is {own}" in done.err


@pytest.mark.parametrize(
    ("command", "options"), [("delete", ()), ("write", ("--journal-dir", "/journal", "--ledger-dir", "/a"))]
)
def test_an_unreadable_cookie_is_shown_and_replaced_or_deleted_with_undo(url, undo_file, command, options) -> None:
    damaged, bookie = b"5\nbookieHost: " + 300 * b"x", f"{command}:3181"

    async def create():
        async with await open_store(url) as store:
            await store.create(cookie_path(bookie), damaged, parents=True)

    run(create())
    assert ok("bookies", "cookie", "show", bookie, "--raw", url=url).out == damaged.decode()
    changing = ("bookies", "cookie", command, bookie, *options, "--yes", "--undo-file", undo_file)
    before = answer(*changing, url=url)["cookie_before"]
    assert (before["record_bytes"], "its text is cut off" in before["unreadable"]) == (len(damaged), True)
    assert before["record"].endswith("58 more bytes; the undo file has them all")
    assert (cookie_path(bookie) in tree(url)) == (command == "write")
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert tree(url)[cookie_path(bookie)][1] == damaged

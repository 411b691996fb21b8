"""`bookies autorecovery` on a real cluster: settings of BookKeeper's auto-recovery, and their undo."""

from tests.support.cli import answer, mledger, ok


def test_settings_that_auto_recovery_has_already_are_nothing_to_do(url) -> None:
    plan = answer("bookies", "autorecovery", "--enable", "--yes", url=url)
    assert (plan["enabled_after"], plan["undo_file"]) == (True, None)


def test_switch_and_delay_of_auto_recovery_are_undone_together(url, undo_file) -> None:
    both = ("bookies", "autorecovery", "--disable", "--lost-bookie-delay", 30)
    done = answer(*both, "--yes", "--undo-file", undo_file, url=url)
    assert (done["enabled"], done["lost_bookie_delay"]) == (False, 30)
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    cluster = answer("bookies", "cluster", url=url)
    assert (cluster["autorecovery_enabled"], cluster["lost_bookie_delay"]) == (True, None)


def test_a_delay_that_bookkeeper_cannot_read_is_refused(url, undo_file) -> None:
    done = mledger("bookies", "autorecovery", "--lost-bookie-delay", 2**31, "--yes", "--undo-file", undo_file, url=url)
    assert done.code == 2
    assert answer("bookies", "cluster", url=url)["lost_bookie_delay"] is None

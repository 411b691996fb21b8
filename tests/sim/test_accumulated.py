"""The record of seeds that were run goes on where it ended, and tells each version apart."""

from tests.sim.accumulated import FIRST, Run, add, next_seed, plan_added, plan_figures, read, unviolated


def _run(first: int, last: int, sources: str = "a", **violations: str) -> Run:
    found = {seed.removeprefix("s"): what for seed, what in violations.items()}
    return Run("c0ffee", sources, first, last, 2.0, 500, found)


def test_the_first_seed_is_behind_those_of_removed_fixes():
    assert next_seed([]) == FIRST


def test_the_next_seed_is_behind_all_that_were_run():
    assert next_seed([_run(10, 19), _run(20, 29, "b")]) == 30


def test_a_run_of_the_same_sources_lengthens_the_last_one():
    assert plan_added([_run(10, 19, s12="lost")], _run(20, 29, s21="lost")) == [
        Run("c0ffee", "a", 10, 29, 4.0, 1000, {"12": "lost", "21": "lost"})
    ]


def test_a_run_of_other_sources_is_kept_apart():
    assert plan_added([_run(10, 19)], _run(20, 29, "b")) == [_run(10, 19), _run(20, 29, "b")]


def test_schedules_are_counted_since_the_last_violation():
    assert unviolated([_run(10, 19, s12="lost"), _run(20, 29, "b")]) == 17
    assert unviolated([_run(10, 19)]) == 10


def test_the_figures_are_of_all_runs_and_of_the_last_version():
    figures = {what: figure for what, figure, _ in plan_figures([_run(10, 19, s12="lost"), _run(20, 29, "b")])}
    assert figures["schedules, each of a seed of its own"] == "20"
    assert figures["seeds"] == "10 to 29"
    assert figures["schedules that violated something"] == "1"
    assert figures["schedules of the last version, b, and violations"] == "10, 0"
    assert figures["a schedule's cost at the last version: processor time, callbacks"] == "200 ms, 50"


def test_a_record_is_read_as_it_was_written(tmp_path):
    record, page = tmp_path / "accumulated.json", tmp_path / "page.md"
    page.write_text("<!-- sim -->\nold\n<!-- /sim -->\n")
    add(_run(10, 19, s12="lost"), record, page)
    add(_run(20, 29, "b"), record, page)
    assert read(record) == [_run(10, 19, s12="lost"), _run(20, 29, "b")]
    assert "| seeds | 10 to 29 |" in page.read_text()

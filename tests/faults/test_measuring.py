"""What the soak calls a slope, and which stalls it attributes to the disk."""

import pytest

from tests.faults.soak import report
from tests.faults.soak.__main__ import RUNS
from tests.faults.soak.measurement import Stall, Sync, slope_a_minute, unexplained


def test_a_slope_is_that_of_the_line_through_the_samples():
    assert slope_a_minute([(0.0, 5.0), (30.0, 6.0), (60.0, 7.0)]) == pytest.approx(2.0)
    assert slope_a_minute([(0.0, 7.0), (60.0, 7.0)]) == pytest.approx(0.0)
    assert slope_a_minute([(1.0, 7.0)]) == 0.0


def test_a_stall_is_explained_by_a_simultaneous_sync_at_least_half_as_long():
    stall = Stall(ended=100.0, seconds=1.0)
    assert unexplained([stall], [Sync(98.8, 0.6)]) == []
    assert unexplained([stall], [Sync(99.9, 0.5)]) == []
    assert unexplained([stall], [Sync(99.5, 0.4)]) == [stall]
    assert unexplained([stall], [Sync(90.0, 5.0), Sync(100.5, 5.0)]) == [stall]
    assert unexplained([stall], []) == [stall]


def test_figures_go_between_their_own_marks_only(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- kills -->\nold\n<!-- /kills -->\n<!-- space -->\nkept\n<!-- /space -->\n")
    report.write("kills", "new", page)
    assert page.read_text() == "above\n<!-- kills -->\nnew\n<!-- /kills -->\n<!-- space -->\nkept\n<!-- /space -->\n"
    with pytest.raises(ValueError, match="0 places"):
        report.write("steady", "new", page)


def test_the_page_has_a_place_for_every_run():
    text = report.PAGE.read_text()
    for name in RUNS:
        assert text.count(f"<!-- {name} -->\n") == text.count(f"<!-- /{name} -->") == 1

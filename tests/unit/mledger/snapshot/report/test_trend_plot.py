"""Lines over the times of snapshots."""

import re
from datetime import datetime, timedelta

from mledger.snapshot.report.trend_plot import HEIGHT, WIDTH, Series, TrendPlot, draw_trend, plan_time_labels

T0 = datetime(2026, 1, 1)
DAY = timedelta(days=1)


def drawn(*lines, times=(T0, T0 + DAY, T0 + 2 * DAY), in_bytes=False):
    return draw_trend(TrendPlot("x", "Title", times, lines, in_bytes))


def paths(svg):
    """How many points each part of a line has, by the data of the line."""
    found = re.findall(r'<g ([^>]*)><title>[^<]*</title><path class="line\d" d="([^"]*)"', svg)
    return {data: [part.count("L") + 1 for part in path.split("M")[1:]] for data, path in found}


def test_a_line_is_interrupted_where_it_has_no_value():
    times = tuple(T0 + at * DAY for at in range(5))
    assert paths(drawn(Series("a", (1, 2, None, 4, 5)), times=times)) == {'data-name="a"': [2, 2]}


def test_a_line_that_is_not_drawn_does_not_stretch_the_scale():
    svg = drawn(Series("a", (1, 2, 3)), Series("", (900, 900, 900), is_drawn=False))
    assert paths(svg) == {'data-name="a"': [3]}
    assert re.findall(r">(\d+)</text>", svg) == ["0", "1", "2", "3"]


def test_names_are_escaped():
    svg = drawn(Series("\"<b>'", (1, 1, 1)))
    assert 'data-name="&quot;&lt;b&gt;&#x27;"' in svg
    assert "<b>" not in svg


def test_a_single_time_is_drawn_in_the_middle():
    assert paths(drawn(Series("a", (5,)), times=(T0,))) == {'data-name="a"': [1]}


def test_everything_is_inside_of_the_element():
    svg = drawn(Series("a", (1 << 50, 0, 1023 << 40)), in_bytes=True)
    points = re.findall(r"([\d.]+) ([\d.]+)(?=[LMh\"])", svg)
    assert points
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)


def test_labels_of_times_are_the_first_the_last_and_some_between():
    times = [T0 + at * DAY for at in range(10)]
    found = plan_time_labels(times, [30 + 25 * at for at in range(10)])
    assert found == [(0, "01 Jan", "start"), (3, "04 Jan", "middle"), (6, "07 Jan", "middle"), (9, "10 Jan", "end")]


def test_labels_that_would_overlap_are_left_out():
    times = [T0, T0 + DAY, T0 + 2 * DAY, T0 + 300 * DAY]
    assert [text for _, text, _ in plan_time_labels(times, [30, 31, 32, 250])] == ["01 Jan", "28 Oct"]


def test_times_of_two_days_are_hours():
    assert [text for _, text, _ in plan_time_labels([T0, T0 + DAY / 2], [0, 100])] == ["00:00", "12:00"]

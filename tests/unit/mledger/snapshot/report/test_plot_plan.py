"""Which lines and bins plots have."""

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from mledger.snapshot.report.plot_plan import bin_label, plan_distributions, plan_namespace_trends, plan_trends
from mledger.snapshot.report.trend_plot import Series

T0 = datetime(2026, 1, 1)
T1 = T0 + timedelta(days=1)


def trends(*rows):
    names = ("level", "figure", "name", "place", "time", "value")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def test_a_line_has_no_value_where_its_topic_did_not_exist():
    (plot,) = plan_trends(trends(("topic", "bytes", "a", 1, T0, 5), ("topic", "bytes", "b", 2, T1, 3)))["topic"]
    assert (plot.times, plot.in_bytes) == ((T0, T1), True)
    assert plot.lines == (Series("a", (5, None)), Series("b", (None, 3)))


def test_all_others_come_last_and_are_nothing_where_there_are_none():
    (plot,) = plan_trends(
        trends(
            ("topic", "holes", "a", 1, T0, 5), ("topic", "holes", "a", 1, T1, 5), ("topic", "holes", None, None, T0, 2)
        )
    )["topic"]
    assert plot.lines == (Series("a", (5, 5)), Series("", (2, 0)))


def test_all_others_are_not_drawn_where_they_would_dwarf_the_rest():
    (plot,) = plan_trends(trends(("topic", "ledgers", "a", 1, T0, 5), ("topic", "ledgers", None, None, T0, 21)))[
        "topic"
    ]
    assert [line.is_drawn for line in plot.lines] == [True, False]


def test_a_figure_that_is_always_zero_has_no_plot():
    found = plan_trends(trends(("tenant", "backlog", "t", 1, T0, 1), ("tenant", "holes", None, None, T0, 0)))
    assert {level: [plot.title for plot in plots] for level, plots in found.items()} == {"tenant": ["Backlog, entries"]}


def test_a_namespace_has_a_line_over_the_times_of_all():
    rows = [{"namespace": "t/n", "time": T1, "backlog": 3, "bytes": 0, "ledgers": 2, "holes": 0}]
    found = plan_namespace_trends(rows, [T0, T1])
    assert [(plot.title, plot.lines) for plot in found] == [
        ("Backlog, entries", (Series("t/n", (None, 3)),)),
        ("Ledgers", (Series("t/n", (None, 2)),)),
    ]


def test_empty_bins_between_others_are_shown():
    rows = [{"figure": "ledgers", "bin": -1, "number": 4}, {"figure": "ledgers", "bin": 2, "number": 1}]
    (plot,) = plan_distributions(pa.Table.from_pylist(rows))
    assert plot.bins == (("0", 4), ("1", 0), ("2\N{EN DASH}3", 0), ("4\N{EN DASH}7", 1))


@pytest.mark.parametrize(
    ("figure", "at", "label"),
    [
        ("backlog", 0, "1"),
        ("backlog", 4, "20\N{EN DASH}49"),
        ("bytes", 5, "1 KiB\N{EN DASH}4 KiB"),
        ("ledgers", -1, "0"),
    ],
)
def test_labels_of_bins(figure, at, label):
    assert bin_label(figure, at) == label

"""Which plots a report has, from the results of its queries; pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from mledger.snapshot.report.numbers import as_short, as_short_bytes
from mledger.snapshot.report.plots import Bars, DistributionPlot
from mledger.snapshot.report.trend_plot import Series, TrendPlot

BARS = 10
FIGURES: Mapping[str, str] = {
    "backlog": "Backlog, entries",
    "bytes": "Payload bytes",
    "ledgers": "Ledgers",
    "holes": "Holes of cursors",
}
"""The figures of trends with their titles, in the page's order."""
LEVELS: Mapping[str, str] = {"tenant": "By tenant", "namespace": "By namespace", "topic": "By topic"}
DWARFED = 4
"""All others are not drawn if they are so many times as high as the highest line."""
_DISTRIBUTIONS = {
    "backlog": "Subscriptions by backlog, entries",
    "bytes": "Topics by payload bytes",
    "ledgers": "Topics by ledgers",
}


def plan_plots(results: Mapping[str, pa.Table]) -> list[Bars]:
    """The bar plots of these query results: the first rows of some queries, without empty plots."""
    plots = [
        _bars(results["backlog"], "backlog", "Largest backlogs, entries", "entries"),
        _bars(results["held_bytes"], "held", "Held on disk by one subscription only", "disk_bytes", in_bytes=True),
        _bars(results["bookie_load"], "load", "Load of bookies, payload bytes", "bytes", in_bytes=True),
        _bars(results["most_holes"], "holes", "Most ranges acknowledged above mark-delete", "holes"),
    ]
    return [plot for plot in plots if plot.bars]


def plan_trends(trends: pa.Table) -> dict[str, list[TrendPlot]]:
    """The plots of each level that has one, from the rows of TRENDS; a figure that is always 0 has none."""
    rows = trends.to_pylist()
    times = sorted({row["time"] for row in rows})
    found: dict[tuple[str, str], dict[str, dict[datetime, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:  # by place, the others last
        found[row["level"], row["figure"]][row["name"] or ""][row["time"]] = row["value"]
    plots: dict[str, list[TrendPlot]] = {}
    for level in LEVELS:
        planned = [
            _trend(f"{level}-{figure}", figure, times, found[level, figure])
            for figure in FIGURES
            if any(value for line in found[level, figure].values() for value in line.values())
        ]
        if planned:
            plots[level] = planned
    return plots


def plan_namespace_trends(rows: Sequence[Mapping[str, Any]], times: Sequence[datetime]) -> list[TrendPlot]:
    """The plots of a namespace, from its rows of NAMESPACE_TRENDS."""
    namespace = rows[0]["namespace"] if rows else ""
    lines = {figure: {namespace: {row["time"]: row[figure] for row in rows}} for figure in FIGURES}
    return [
        _trend(f"all-{figure}", figure, times, lines[figure])
        for figure in FIGURES
        if any(lines[figure][namespace].values())
    ]


def plan_distributions(distributions: pa.Table) -> list[DistributionPlot]:
    """The histograms of the rows of DISTRIBUTIONS, with the empty bins between others."""
    numbers: dict[str, dict[int, int]] = defaultdict(dict)
    for row in distributions.to_pylist():
        numbers[row["figure"]][row["bin"]] = row["number"]
    plots = []
    for figure, title in _DISTRIBUTIONS.items():
        if not numbers[figure]:
            continue
        between = range(min(numbers[figure]), max(numbers[figure]) + 1)
        bins = tuple((bin_label(figure, at), numbers[figure].get(at, 0)) for at in between)
        plots.append(DistributionPlot(f"distribution-{figure}", title, bins))
    return plots


def bin_label(figure: str, at: int) -> str:
    """The values of a bin of DISTRIBUTIONS, from its lowest to its highest value."""
    if at < 0:
        return "0"
    low, high = _bin_start(figure, at), _bin_start(figure, at + 1) - 1
    written = as_short_bytes if figure == "bytes" else as_short
    return written(low) if low == high else f"{written(low)}\N{EN DASH}{written(high)}"


def _bin_start(figure: str, at: int) -> int:
    if figure == "backlog":
        return int((1, 2, 5)[at % 3] * 10 ** (at // 3))
    return int(4**at if figure == "bytes" else 2**at)


def _trend(name: str, figure: str, times: Sequence[datetime], lines: Mapping[str, Mapping[datetime, int]]) -> TrendPlot:
    named = tuple(Series(key, tuple(values.get(time) for time in times)) for key, values in lines.items() if key)
    others = [lines[""].get(time, 0) for time in times] if "" in lines else []
    if any(others):
        highest = max((value or 0 for line in named for value in line.values), default=0)
        named += (Series("", tuple(others), is_drawn=not named or max(others) <= DWARFED * highest),)
    return TrendPlot(f"trend-{name}", FIGURES[figure], tuple(times), named, figure == "bytes")


def _bars(result: pa.Table, name: str, title: str, column: str, *, in_bytes: bool = False) -> Bars:
    rows = [row for row in result.slice(0, BARS).to_pylist() if row[column]]
    return Bars(name, title, tuple((_label(row), row[column], row.get("topic", "")) for row in rows), in_bytes)


def _label(row: Mapping[str, Any]) -> str:
    if "bookie_id" in row:
        return str(row["bookie_id"])
    return f"{row['topic'].removeprefix('persistent://')} {row['cursor']}"

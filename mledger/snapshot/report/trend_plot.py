"""Lines over the times of snapshots, as SVG elements that a page's style colours.

They are written here and not by a plotting library, because a report has four for each namespace: these take a
millisecond, matplotlib's a tenth of a second.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from html import escape

from msgspec import Struct

from mledger.snapshot.report.numbers import as_bytes, as_short, as_short_bytes, ticks_up_to

OTHERS = 5
"""The colour of all others; those with names have 0 to 4."""
WIDTH, HEIGHT = 266, 150
_TOP, _RIGHT, _BOTTOM = 8, 8, 18
_CHARACTER = 5.4
_LABEL_WIDTH = 38
_MOST_LABELS = 4
_BRIEF = timedelta(days=2)


class Series(Struct, frozen=True):
    """A line: a value for each time of its plot, None where it has none; `name` is empty for all others.

    It is not drawn, and only in the legend, where it would leave no height for the rest.
    """

    name: str
    values: tuple[int | None, ...]
    is_drawn: bool = True

    @property
    def newest(self) -> int:
        """Its last value."""
        return self.values[-1] or 0


class TrendPlot(Struct, frozen=True):
    """Lines over at least one time; at most five with names, and the others. `name` is unique on the page."""

    name: str
    title: str
    times: tuple[datetime, ...]
    lines: tuple[Series, ...]
    in_bytes: bool = False

    @property
    def legend(self) -> list[tuple[Series, str, int]]:
        """Each line with its newest value as text, and its colour."""
        written = as_bytes if self.in_bytes else as_short
        return [(line, written(line.newest), _colour_of(at, line)) for at, line in enumerate(self.lines)]


def draw_trend(plot: TrendPlot) -> str:
    """The plot as an SVG element that fills the width of its container, without its legend."""
    drawn = [(at, line) for at, line in enumerate(plot.lines) if line.is_drawn]
    largest = max((value for _, line in drawn for value in line.values if value is not None), default=0)
    ticks = ticks_up_to(largest, in_bytes=plot.in_bytes)
    written = as_short_bytes if plot.in_bytes else as_short
    left = max(len(written(tick)) for tick in ticks) * _CHARACTER + 8
    width, height = WIDTH - left - _RIGHT, HEIGHT - _TOP - _BOTTOM
    across = [left + width * part for part in _parts(plot.times)]

    def up(value: int) -> float:
        return HEIGHT - _BOTTOM - height * value / ticks[-1]

    scale = [
        f'<path class="grid" d="M{left:.1f} {up(tick):.1f}H{WIDTH}"/>'
        f'<text x="{left - 5:.1f}" y="{up(tick) + 3:.1f}" text-anchor="end">{escape(written(tick))}</text>'
        for tick in ticks
    ]
    days = [
        f'<text x="{across[at]:.1f}" y="{HEIGHT - 4}" text-anchor="{anchor}">{escape(text)}</text>'
        for at, text, anchor in plan_time_labels(plot.times, across)
    ]
    lines = []
    for at, line in drawn:
        data = f'data-name="{escape(line.name)}"' if line.name else "data-rest"
        points = [None if value is None else (x, up(value)) for x, value in zip(across, line.values, strict=True)]
        path = "".join(f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in run)}" for run in _runs(points))
        dots = "".join(f"M{each[0]:.1f} {each[1]:.1f}h0" for each in points if each is not None)
        colour = f"line{_colour_of(at, line)}"
        title = escape(line.name or "all others")
        lines.append(
            f'<g {data}><title>{title}</title><path class="{colour}" d="{path}"/>'
            f'<path class="{colour} dots" d="{dots}"/></g>'
        )
    parts = "".join((*scale, *days, *lines))
    labelled = f'role="img" aria-labelledby="plot-{plot.name}"'
    return f'<svg class="lines" viewBox="0 0 {WIDTH} {HEIGHT}" {labelled}>{parts}</svg>'


def plan_time_labels(times: Sequence[datetime], across: Sequence[float]) -> list[tuple[int, str, str]]:
    """The times that get a label, as (index, text, SVG's text-anchor): the first, the last, and some between.

    `across` says where each time is; labels that would overlap are left out.
    """
    last = len(times) - 1
    form = "%H:%M" if times[-1] - times[0] < _BRIEF else "%d %b"
    count = min(len(times), _MOST_LABELS)
    chosen = [0] if last == 0 else [round(at * last / (count - 1)) for at in range(count)]
    labels = [(0, times[0].strftime(form), "middle" if last == 0 else "start")]
    for at in chosen[1:-1]:
        far_left = labels[-1][0] == 0 and across[at] - across[0] >= 1.5 * _LABEL_WIDTH
        far = far_left or (labels[-1][0] > 0 and across[at] - across[labels[-1][0]] >= _LABEL_WIDTH)
        if far and across[last] - across[at] >= 1.5 * _LABEL_WIDTH:
            labels.append((at, times[at].strftime(form), "middle"))
    return labels if last == 0 else [*labels, (last, times[-1].strftime(form), "end")]


def _parts(times: Sequence[datetime]) -> list[float]:
    """Where between the first and the last each time is, from 0 to 1."""
    whole = times[-1] - times[0]
    return [(time - times[0]) / whole if whole else 0.5 for time in times]


def _runs(points: Sequence[tuple[float, float] | None]) -> Iterator[list[tuple[float, float]]]:
    run: list[tuple[float, float]] = []
    for point in (*points, None):
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []


def _colour_of(at: int, line: Series) -> int:
    return at if line.name else OTHERS

"""Plots as SVG elements for a page: text stays text, and the page's style sets the colours, for light and dark mode.

What a plot has for one topic, namespace or tenant says so in `data-name`, so that the page's filter finds it.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from msgspec import Struct

from mledger.snapshot.exports.errors import FormatNotInstalled
from mledger.snapshot.report.numbers import as_bytes, as_number, as_short

INK, BAR, LINE = "#010101", "#020202", "#030303"
"""Colours that nothing else uses; they are replaced by the page's colours."""

LABEL_LENGTH = 48
_COLOURS = {INK: "ink", BAR: "bar", LINE: "line"}
_MOST_LABELS = 5


class Bars(Struct, frozen=True):
    """A bar plot: `name` is unique on the page; `in_bytes` says how to format the numbers.

    A bar is its label, its value, and the topic that it is about, or empty.
    """

    name: str
    title: str
    bars: tuple[tuple[str, int, str], ...]
    in_bytes: bool = False


class DistributionPlot(Struct, frozen=True):
    """A histogram: the label and number of each bin."""

    name: str
    title: str
    bins: tuple[tuple[str, int], ...]


def draw(plot: Bars) -> str:
    """The plot as an SVG element that fills the width of its container; FormatNotInstalled."""

    def on(axes: Any) -> None:
        places = range(len(plot.bars))
        drawn = axes.barh([at + 0.2 for at in places], [value for _, value, _ in plot.bars], color=BAR, height=0.4)
        values = axes.bar_label(drawn, labels=_written(plot), padding=4)
        labels = [
            axes.text(0, at - 0.05, fit_label(label), ha="left", va="bottom", in_layout=False)
            for at, (label, _, _) in enumerate(plot.bars)
        ]
        for part, texts in (("bar", drawn), ("label", labels), ("value", values)):
            for at, each in enumerate(texts):
                each.set_gid(f"series-{at}-{part}")
        axes.set_ylim(len(plot.bars) - 0.5, -0.6)
        axes.margins(x=0.25)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in ("top", "right", "bottom", "left"):
            axes.spines[side].set_visible(False)

    svg = _drawn(plot.name, (4.2, 0.15 + 0.42 * len(plot.bars)), on)
    return _named(svg, plot.name, [(_data(topic), f"{label}: {value:,}") for label, value, topic in plot.bars])


def draw_distribution(plot: DistributionPlot) -> str:
    """As `draw`; the heights of bars are logarithmic."""

    def on(axes: Any) -> None:
        from matplotlib import ticker

        places = range(len(plot.bins))
        drawn = axes.bar(places, [number for _, number in plot.bins], color=BAR, width=0.9)
        for at, each in enumerate(drawn):
            each.set_gid(f"series-{at}-bar")
        every = -(-len(plot.bins) // _MOST_LABELS)
        axes.set_xticks(places[::every], [label.partition("\N{EN DASH}")[0] for label, _ in plot.bins[::every]])
        axes.set_yscale("log")
        axes.set_ylim(0.7, 1.6 * max(number for _, number in plot.bins))
        axes.yaxis.set_major_locator(ticker.LogLocator(base=10, numticks=5))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: as_short(int(value))))
        _thin(axes)

    svg = _drawn(plot.name, (3.7, 2.1), on)
    return _named(svg, plot.name, [("", f"{label}: {number:,}") for label, number in plot.bins])


def fit_label(label: str) -> str:
    """Shorten a label to leave room for its bar; the middle goes, because the ends say more."""
    half = (LABEL_LENGTH - 1) // 2
    return label if len(label) <= LABEL_LENGTH else f"{label[:half]}…{label[-half:]}"


def _written(plot: Bars) -> Sequence[str]:
    return [as_bytes(value) if plot.in_bytes else as_number(value) for _, value, _ in plot.bars]


def _thin(axes: Any) -> None:
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _drawn(name: str, size: tuple[float, float], on: Callable[[Any], None]) -> str:
    """The SVG of a figure of `size` inches, drawn by `on` in its axes."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise FormatNotInstalled("reports need the package matplotlib: pip install 'mledger[report]'") from None
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 9,
        "text.parse_math": False,
        "text.color": INK,
        "axes.edgecolor": LINE,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    written = io.StringIO()
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained", facecolor="none")
        on(figure.add_subplot(facecolor="none"))
        with warnings.catch_warnings():  # the browser draws the text, so glyphs missing here do not matter
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _embedded(written.getvalue(), name)


def _embedded(svg: str, plot: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    # All plots share the page's namespace of identifiers, so theirs must differ.
    svg = re.sub(r'(\bid="|"#|url\(#)', lambda found: found[1] + plot + "-", svg)
    for colour, name in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("<svg", f'<svg role="img" aria-labelledby="plot-{plot}"', 1)


def _data(name: str) -> str:
    return f' data-name="{escape(name)}"' if name else ""


def _named(svg: str, plot: str, series: Sequence[tuple[str, str]]) -> str:
    """The SVG, whose groups of each series have its attributes, and a title that is shown on hover."""

    def named(found: re.Match[str]) -> str:
        data, title = series[int(found[2])]
        return f"{found[1]}{data}><title>{escape(title)}</title>"

    return re.sub(rf'(<g id="{plot}-series-(\d+)-\w+")>', named, svg)

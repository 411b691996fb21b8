"""Plots as SVG to be put into a page: text stays text, colours are the page's, so that they follow light and dark."""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from mledger.snapshot.exports.errors import FormatNotInstalled
from mledger.snapshot.report.numbers import as_bytes, as_number

INK, BAR, LINE = "#010101", "#020202", "#030303"
"""Colours that nothing else has; the page's take their place."""

LABEL_LENGTH = 44


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars to be drawn: `name` tells plots of a page apart; `in_bytes` says how numbers are written."""

    name: str
    title: str
    bars: tuple[tuple[str, int], ...]
    in_bytes: bool = False


def draw(plot: Bars) -> str:
    """The plot as an SVG element as wide as its place; FormatNotInstalled."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise FormatNotInstalled("reports need the package matplotlib: pip install 'mledger[report]'") from None
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": plot.name,
        "text.parse_math": False,
        "text.color": INK,
        "axes.edgecolor": LINE,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    written = io.StringIO()
    with mpl.rc_context(settings):
        figure = Figure(figsize=(7.2, 0.6 + 0.42 * len(plot.bars)), layout="constrained", facecolor="none")
        axes = figure.add_subplot(facecolor="none")
        shown = _written(plot)
        places = range(len(plot.bars))
        drawn = axes.barh(places, [value for _, value in plot.bars], color=BAR, height=0.62)
        axes.set_yticks(places, [shorten(label) for label, _ in plot.bars])
        axes.bar_label(drawn, labels=shown, padding=4)
        axes.invert_yaxis()
        axes.margins(x=0.18)
        axes.set_xticks([])
        for side in ("top", "right", "bottom"):
            axes.spines[side].set_visible(False)
        with warnings.catch_warnings():  # the browser draws the text, and has the letters that are missing here
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _embedded(written.getvalue(), plot)


def shorten(label: str) -> str:
    """A label that leaves room for its bar: its ends tell more than its middle."""
    half = (LABEL_LENGTH - 1) // 2
    return label if len(label) <= LABEL_LENGTH else f"{label[:half]}…{label[-half:]}"


def _written(plot: Bars) -> Sequence[str]:
    return [as_bytes(value) if plot.in_bytes else as_number(value) for _, value in plot.bars]


def _embedded(svg: str, plot: Bars) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    # Identifiers are the page's: those of its plots must differ.
    svg = re.sub(r'(\bid="|"#|url\(#)', lambda found: found[1] + plot.name + "-", svg)
    for colour, name in ((INK, "ink"), (BAR, "bar"), (LINE, "line")):
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("<svg", f'<svg role="img" aria-labelledby="plot-{plot.name}"', 1)

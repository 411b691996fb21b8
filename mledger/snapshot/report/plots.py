"""Plots as SVG elements for a page: text stays text, and the page's style sets the colours, for light and dark mode."""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from mledger.snapshot.exports.errors import FormatNotInstalled
from mledger.snapshot.report.numbers import as_bytes, as_number

INK, BAR, LINE = "#010101", "#020202", "#030303"
"""Colours that nothing else uses; they are replaced by the page's colours."""

LABEL_LENGTH = 44


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar plot: `name` is unique on the page; `in_bytes` says how to format the numbers."""

    name: str
    title: str
    bars: tuple[tuple[str, int], ...]
    in_bytes: bool = False


def draw(plot: Bars) -> str:
    """The plot as an SVG element that fills the width of its container; FormatNotInstalled."""
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
        with warnings.catch_warnings():  # the browser draws the text, so glyphs missing here do not matter
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _embedded(written.getvalue(), plot)


def shorten(label: str) -> str:
    """Shorten a label to leave room for its bar; the middle goes, because the ends say more."""
    half = (LABEL_LENGTH - 1) // 2
    return label if len(label) <= LABEL_LENGTH else f"{label[:half]}…{label[-half:]}"


def _written(plot: Bars) -> Sequence[str]:
    return [as_bytes(value) if plot.in_bytes else as_number(value) for _, value in plot.bars]


def _embedded(svg: str, plot: Bars) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    # All plots share the page's namespace of identifiers, so theirs must differ.
    svg = re.sub(r'(\bid="|"#|url\(#)', lambda found: found[1] + plot.name + "-", svg)
    for colour, name in ((INK, "ink"), (BAR, "bar"), (LINE, "line")):
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("<svg", f'<svg role="img" aria-labelledby="plot-{plot.name}"', 1)

"""The report page: one HTML file that loads nothing else; all data in it is escaped."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

import pyarrow as pa

from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.report.numbers import as_bytes, as_number, as_span
from mledger.snapshot.report.plots import Bars, draw
from mledger.snapshot.sql.queries import QUERIES, Query, Snapshots

BARS = 10
_BYTES = ("bytes", "disk_bytes", "length")
_COUNTED = ("topics", "cursors", "ledgers", "bookies", "errors")


def write_report(snapshots: Snapshots, limit: int) -> str:
    """The page about a snapshot, with at most `limit` rows of each table. FormatNotInstalled."""
    queries = [query for query in QUERIES.values() if snapshots.before is not None or not query.compares]
    results = {query.name: snapshots.ask(query, max(limit, BARS)) for query in queries}
    counts = {query.name: snapshots.count(query) for query in queries}
    figures = "".join(_figure(plot) for plot in plan_plots(results))
    sections = "".join(_section(query, results[query.name].slice(0, limit), counts[query.name]) for query in queries)
    links = "".join(f'<li><a href="#{query.name}">{escape(query.title)}</a></li>' for query in queries)
    script, style = _asset("page.js"), _asset("page.css")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    manifest = snapshots.manifest
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{allowed}'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Metadata, {escape(utc_text(manifest.time_ms))}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>Metadata of {escape(manifest.request.source)}</h1>\n{_facts(manifest, snapshots.before)}\n"
        f'<nav aria-label="Queries"><ul>{links}</ul></nav>\n<div class="plots">{figures}</div>\n{sections}'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def plan_plots(results: Mapping[str, pa.Table]) -> list[Bars]:
    """The plots of these query results: the first rows of some queries, without empty plots."""
    plots = [
        _bars(results["backlog"], "backlog", "Largest backlogs, entries", "entries"),
        _bars(results["held_bytes"], "held", "Held on disk by one subscription only", "disk_bytes", in_bytes=True),
        _bars(results["bookie_load"], "load", "Load of bookies, payload bytes", "bytes", in_bytes=True),
        _bars(results["most_holes"], "holes", "Most ranges acknowledged above mark-delete", "holes"),
    ]
    return [plot for plot in plots if plot.bars]


def _bars(result: pa.Table, name: str, title: str, column: str, *, in_bytes: bool = False) -> Bars:
    rows = [row for row in result.slice(0, BARS).to_pylist() if row[column]]
    return Bars(name, title, tuple((_label(row), row[column]) for row in rows), in_bytes)


def _label(row: Mapping[str, Any]) -> str:
    if "bookie_id" in row:
        return str(row["bookie_id"])
    return f"{row['topic'].removeprefix('persistent://')} {row['cursor']}"


def _figure(plot: Bars) -> str:
    return f'<figure><figcaption id="plot-{plot.name}">{escape(plot.title)}</figcaption>{draw(plot)}</figure>\n'


def _facts(manifest: Manifest, before: Manifest | None) -> str:
    rows = [
        ("time", utc_text(manifest.time_ms)),
        ("snapshot", manifest.name),
        ("compared with", "" if before is None else f"{before.name}, {utc_text(before.time_ms)}"),
        ("zxid", "" if manifest.zxid is None else f"0x{manifest.zxid:x}"),
        ("options", ", ".join(f"{name}={value}" for name, value in manifest.request.options)),
        *((name, as_number(manifest.tables[name].rows)) for name in _COUNTED),
    ]
    shown = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    return f"<dl>{shown}</dl>"


def _section(query: Query, result: pa.Table, rows: int) -> str:
    head = f'<section id="{query.name}"><h2>{escape(query.title)}</h2><p class="doc">{_marked(query.doc)}</p>'
    if not result.num_rows:
        return f'{head}<p class="count">none</p></section>\n'
    more = f", the first {as_number(result.num_rows)} shown" if rows > result.num_rows else ""
    count = f'<p class="count">{as_number(rows)} in all{more}</p>'
    return f'{head}{count}<div class="scroll" tabindex="0">{_table(result)}</div></section>\n'


def _marked(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _table(result: pa.Table) -> str:
    names = result.column_names
    numbers = [pa.types.is_integer(result.schema.field(name).type) for name in names]
    heads = "".join(
        f'<th scope="col"{_class(number)}><button type="button">{escape(name.removesuffix("_s").replace("_", " "))}'
        "</button></th>"
        for name, number in zip(names, numbers, strict=True)
    )
    rows = "".join(
        f"<tr>{_cells(names, numbers, row)}</tr>\n" for row in zip(*result.to_pydict().values(), strict=True)
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table>"


def _cells(names: Sequence[str], numbers: Sequence[bool], row: Sequence[Any]) -> str:
    cells = []
    for name, number, value in zip(names, numbers, row, strict=True):
        raw = "" if value is None else str(value)
        data = f' data-value="{escape(raw)}"' if number else ""
        cells.append(f"<td{_class(number)}{data}>{escape(_text(name, value))}</td>")
    return "".join(cells)


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int) or name.endswith(("_id", "not_counted")):
        return str(value)
    if name in _BYTES:
        return as_bytes(value)
    return as_span(value) if name.endswith("_s") else as_number(value)


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def _asset(name: str) -> str:
    return resources.files("mledger.snapshot").joinpath("report", name).read_text("utf-8")

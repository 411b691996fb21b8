"""The pages of a report: HTML that loads nothing else, from templates that escape everything."""

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import pyarrow as pa
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.report.numbers import as_number
from mledger.snapshot.report.page_names import INDEX, page_at
from mledger.snapshot.report.plot_plan import (
    BARS,
    LEVELS,
    plan_distributions,
    plan_namespace_trends,
    plan_plots,
    plan_trends,
)
from mledger.snapshot.report.plots import draw, draw_distribution
from mledger.snapshot.report.result_tables import ResultTable, result_table
from mledger.snapshot.report.trend_plot import draw_trend
from mledger.snapshot.sql.history import NAMESPACE_TRENDS, TRENDS
from mledger.snapshot.sql.queries import QUERIES, Query, Snapshots
from mledger.snapshot.sql.report_queries import (
    BACKLOG_CHANGES,
    DISTRIBUTIONS,
    NAMESPACE_SUBSCRIPTIONS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    SIZE_CHANGES,
    first_of_each,
)

LINKED = 5000
"""The most namespaces that the first page of several links."""
_COUNTED = ("topics", "cursors", "ledgers", "bookies", "errors")


class ReportRequest(Struct, frozen=True):
    """What a report shows: at most `limit` rows of each table, the figures of all snapshots, and whether in pages.

    `history` has the rows of `read_history`; None if there is one snapshot only.
    """

    limit: int
    history: pa.Table | None = None
    in_pages: bool = False


def write_report(snapshots: Snapshots, request: ReportRequest) -> str:
    """The page about a snapshot, or the first of several. FormatNotInstalled, QueryTooLarge."""
    queries = [query for query in QUERIES.values() if snapshots.before is not None or not query.compares]
    results = {query.name: snapshots.ask(query, max(request.limit, BARS)) for query in queries}
    changes = () if snapshots.before is None else (BACKLOG_CHANGES, SIZE_CHANGES)
    tables = [
        result_table(query, results[query.name].slice(0, request.limit), snapshots.count(query)) for query in queries
    ]
    return _rendered(
        "index.html",
        title=f"Metadata of {snapshots.manifest.request.source}",
        facts=_facts(snapshots.manifest, snapshots.before),
        trends=_trends(snapshots, request),
        distributions=[(plot, draw_distribution(plot)) for plot in plan_distributions(snapshots.ask(DISTRIBUTIONS))],
        changes=[_asked(snapshots, query, request.limit) for query in changes],
        plots=[(plot, draw(plot)) for plot in plan_plots(results)],
        tables=[_namespaces(snapshots, request), *tables],
    )


def write_namespace_pages(snapshots: Snapshots, request: ReportRequest) -> Iterator[tuple[str, str]]:
    """The path below the report's directory, and the page, of each namespace. FormatNotInstalled, QueryTooLarge."""
    figures = {row["namespace"]: row for row in snapshots.ask(NAMESPACES).to_pylist()}
    topics = _by_namespace(snapshots, NAMESPACE_TOPICS, request.limit)
    subscriptions = _by_namespace(snapshots, NAMESPACE_SUBSCRIPTIONS, request.limit)
    trends: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if request.history is not None:
        for row in snapshots.ask(NAMESPACE_TRENDS).to_pylist():
            trends[row["namespace"]].append(row)
    times = sorted({row["time"] for rows in trends.values() for row in rows})
    for namespace, row in figures.items():
        tables = [
            result_table(query, rows[namespace], row[counted])
            for query, rows, counted in (
                (NAMESPACE_TOPICS, topics, "topics"),
                (NAMESPACE_SUBSCRIPTIONS, subscriptions, "subscriptions"),
            )
            if namespace in rows
        ]
        page = _rendered(
            "namespace.html",
            title=namespace,
            facts=[
                ("time", utc_text(snapshots.manifest.time_ms)),
                ("snapshot", snapshots.manifest.name),
                ("topics", as_number(row["topics"])),
                ("subscriptions", as_number(row["subscriptions"])),
            ],
            trends=[(plot, draw_trend(plot)) for plot in plan_namespace_trends(trends[namespace], times)],
            tables=tables,
            index=f"../{INDEX}",
        )
        yield page_at(namespace), page


def _trends(snapshots: Snapshots, request: ReportRequest) -> list[tuple[str, list[Any]]]:
    if request.history is None:
        return []
    planned = plan_trends(snapshots.ask(TRENDS))
    return [(LEVELS[level], [(plot, draw_trend(plot)) for plot in plots]) for level, plots in planned.items()]


def _asked(snapshots: Snapshots, query: Query, limit: int) -> ResultTable:
    return result_table(query, snapshots.ask(query, limit), snapshots.count(query))


def _namespaces(snapshots: Snapshots, request: ReportRequest) -> ResultTable:
    if not request.in_pages:
        return _asked(snapshots, NAMESPACES, request.limit)
    found, total = snapshots.ask(NAMESPACES, LINKED), snapshots.count(NAMESPACES)
    return result_table(NAMESPACES, found, total, lambda namespace: page_at(namespace, for_link=True))


def _by_namespace(snapshots: Snapshots, query: Query, limit: int) -> dict[str, pa.Table]:
    """The first `limit` rows of each namespace, without the columns that only order them."""
    found = snapshots.ask(first_of_each(query, limit))
    namespaces = found.column("namespace").to_pylist()
    starts = [at for at, place in enumerate(found.column("place").to_pylist()) if place == 1]
    shown = found.drop_columns(["namespace", "place"])
    ends = [*starts[1:], len(namespaces)]
    return {namespaces[start]: shown.slice(start, end - start) for start, end in zip(starts, ends, strict=False)}


def _facts(manifest: Manifest, before: Manifest | None) -> list[tuple[str, str]]:
    rows = [
        ("time", utc_text(manifest.time_ms)),
        ("snapshot", manifest.name),
        ("compared with", "" if before is None else f"{before.name}, {utc_text(before.time_ms)}"),
        ("zxid", "" if manifest.zxid is None else f"0x{manifest.zxid:x}"),
        ("options", ", ".join(f"{name}={value}" for name, value in manifest.request.options)),
        *((name, as_number(manifest.tables[name].rows)) for name in _COUNTED),
    ]
    return [(name, value) for name, value in rows if value]


def _marked(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  # escaped


def _breakable(text: str) -> Markup:
    """The text, which may be broken after each slash."""
    return Markup("/<wbr>").join(text.split("/"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mledger.snapshot.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    script, style = _asset("page.js"), _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.filters |= {"marked": _marked, "breakable": _breakable}
    environment.globals |= {"script": Markup(script), "style": Markup(style), "script_digest": digest}  # noqa: S704
    return environment


def _rendered(template: str, **values: Any) -> str:
    """A page; what `draw` makes is already markup."""
    return _environment().get_template(template).render(values)


def _asset(name: str) -> str:
    return resources.files("mledger.snapshot").joinpath("report", name).read_text("utf-8")

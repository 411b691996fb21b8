"""The topics of a namespace as a table: searched, sorted, and in pages. No I/O."""

from collections.abc import Sequence

from msgspec import Struct

from mledger.metastore.records.paths import TopicName

PAGE = 50
NAME, BACKLOG = "name", "backlog"
ORDERS = (BACKLOG, NAME)


class TopicRow(Struct, frozen=True):
    """A topic; its figures are None unless it is open at this broker. `backlog` is that of its worst subscription."""

    topic: TopicName
    backlog: int | None = None
    subscriptions: int | None = None
    producers: int | None = None
    consumers: int | None = None
    size: int | None = None


class TopicTable(Struct, frozen=True):
    """One page of the topics that a search found."""

    rows: tuple[TopicRow, ...]
    search: str
    order: str
    page: int
    pages: int
    found: int
    total: int


def plan_topic_table(rows: Sequence[TopicRow], search: str = "", order: str = BACKLOG, page: int = 1) -> TopicTable:
    """The page; topics whose backlog is not known come after the others."""
    order = order if order in ORDERS else BACKLOG
    wanted = search.strip().casefold()
    found = [row for row in rows if wanted in str(row.topic).casefold()]
    found.sort(key=lambda row: str(row.topic))
    if order == BACKLOG:
        found.sort(key=lambda row: -1 if row.backlog is None else row.backlog, reverse=True)
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    shown = found[(page - 1) * PAGE : page * PAGE]
    return TopicTable(tuple(shown), search, order, page, pages, len(found), len(rows))

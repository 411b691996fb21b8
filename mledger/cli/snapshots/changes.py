"""`mledger snapshot changes`: who changed which znode, when, from what to what, by ZooKeeper's transaction logs."""

from collections import deque
from collections.abc import Sequence

import click

from mledger.cli.shared.bounded_work import within_timeout
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputTable, Value, columns
from mledger.cli.snapshots.export import options_of
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.source.change_reader import plan_changes, read_change_rows
from mledger.snapshot.source.options import parse_options
from mledger.snapshot.tables.changes import Change

FOR_PEOPLE = ("zxid", "time", "session", "operation", "path", "from", "to")
FOR_PROGRAMS = (*FOR_PEOPLE, "kind", "topic", "cursor", "before_known", "before", "after")
SHOWN = 1000


@click.command(
    epilog="Example: mledger --metadata file:///var/lib/zookeeper snapshot changes --topic TOPIC --cursor SUB"
)
@click.option(
    "--option", "-D", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the tables, as in Spark."
)
@click.option("--topic", metavar="TOPIC", help="Only changes of this topic, with its partitions.")
@click.option("--cursor", metavar="NAME", help="Only changes of cursors of this name, and of their ledgers.")
@click.option("--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="The newest rows to show.")
@common_options
@click.pass_obj
@within_timeout
def changes(context: CommandContext, pairs: Sequence[str], topic: str | None, cursor: str | None, limit: int) -> None:
    """Show what each transaction did to each znode, from ZooKeeper's logs.

    --metadata file:///DIR names the directory of the logs. A cursor's znode changes when its
    subscription is created, closed or gets a new cursor ledger; other moves are in that ledger.
    """
    options = parse_options({**options_of(pairs), "topic": topic or "", "metadata": context.url})
    newest: deque[Change] = deque(maxlen=limit)
    for rows in read_change_rows(options, plan_changes(options)):
        newest.extend(row for row in rows if cursor is None or row.cursor == cursor)
    names = FOR_PROGRAMS if context.output.for_programs else FOR_PEOPLE
    context.output.table(OutputTable("changes", columns(*names), tuple(_values(row, names) for row in newest)))


def _values(row: Change, names: Sequence[str]) -> tuple[Value, ...]:
    node = row.node
    found: dict[str, Value] = {
        "zxid": f"0x{node.zxid:x}",
        "time": utc_text(node.time_ms),
        "session": row.session,
        "operation": node.operation,
        "path": row.path,
        "from": _text(row.came_from),
        "to": _text(row.went_to),
        "kind": None if row.kind is None else row.kind.value,
        "topic": row.place.topic,
        "cursor": row.cursor,
        "before_known": node.known,
        "before": row.before,
        "after": row.after,
    }
    return tuple(found[name] for name in names)


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)

"""Tables for people, by rich; a module of its own, so that other commands do not import rich."""

from typing import TextIO

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table as RichTable

from mledger.cli.shared.output.results import OutputRecord, OutputTable

PIPE_WIDTH = 4096  # a table in a pipe is never folded


def printed(shown: OutputTable | OutputRecord, stream: TextIO) -> str:
    """A table, or a record with its tables, as text for `stream`."""
    console = Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False)
    if isinstance(shown, OutputTable):
        return _rendered(console, _table(shown))
    parts = [_rendered(console, _grid(shown))]
    for table in shown.tables:
        if table.rows:
            title = _rendered(console, f"[bold]{escape(table.key.replace('_', ' '))}[/bold]")
            parts += ["", title, _rendered(console, _table(table))]
    return "\n".join(parts)


def _grid(record: OutputRecord) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for column, value in record.fields:
        grid.add_row(column.title, escape(column.as_text(value)))
    return grid


def _table(table: OutputTable) -> RichTable:
    shown = RichTable(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(table.columns):
        number = all(isinstance(row[index], int) and not isinstance(row[index], bool) for row in table.rows)
        shown.add_column(column.title, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(escape(each.as_text(value)) for each, value in zip(table.columns, row, strict=True)))
    return shown


def _rendered(console: Console, shown: RenderableType) -> str:
    """The text on the console, without trailing spaces."""
    with console.capture() as capture:
        console.print(shown)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())

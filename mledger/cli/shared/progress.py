"""Progress bars by rich; a module of its own, so that other commands do not import rich."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


def progress_bar(what: str, unit: str, *, wanted: bool) -> Progress:
    """A progress bar on stderr, shown only if `wanted` and on a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not wanted or not console.is_terminal,
    )

"""Progress bars for people, by rich, which a command without one does not import."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


def progress_bar(what: str, unit: str, *, wanted: bool) -> Progress:
    """A progress bar on stderr, shown only on a terminal and where it is wanted."""
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

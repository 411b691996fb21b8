"""Progress bars by rich, which is imported only where a terminal shows one."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def progress_bar(what: str, unit: str, *, wanted: bool) -> "Progress | HiddenProgress":
    """A progress bar on stderr; hidden unless it is `wanted` and stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        return HiddenProgress()
    return _shown(what, unit)


def _shown(what: str, unit: str) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class HiddenProgress:
    """The part of rich's `Progress` that commands use, showing nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def add_task(self, description: str, *, total: float | None) -> "TaskID":
        """Accept a task; there is nothing to show."""
        return cast("TaskID", 0)

    def advance(self, task: "TaskID", count: float = 1) -> None:
        """Accept an advance of the task."""

    def update(
        self,
        task: "TaskID",
        *,
        total: float | None = None,
        completed: float | None = None,
        description: str | None = None,
    ) -> None:
        """Accept a change of the task."""

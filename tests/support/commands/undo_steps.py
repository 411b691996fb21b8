"""A command that changes records, built on the code that all changing commands share.

`python -m tests.support.commands.undo_steps URL UNDO_FILE STEP PATH TEXT` sets the node at PATH to TEXT, and kills
itself with SIGKILL when it reaches STEP.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    read_before,
    run_change,
    save_cursors,
)
from mledger.cli.shared.context import CommandContext
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.metastore.records.paths import cursor_path
from mledger.metastore.store import Operation
from mledger.metastore.url import open_store


def change_records(
    url: str,
    undo_file: Path,
    operations: Sequence[Operation],
    *,
    managed_ledger: str = "",
    cursors: Sequence[str] = (),
    lost: Sequence[str] = (),
    cut_off: bool = False,
) -> None:
    """Carry out `operations` as a changing command; its undo file holds the states of `cursors`.

    With `cut_off` the command is cancelled before it has sent them, as by --timeout or Ctrl-C.
    """

    paths = [cursor_path(managed_ledger, each) for each in cursors]

    async def plan(cluster) -> CommandChange:
        before = await read_before(cluster.metadata, [operation.path for operation in operations])
        return CommandChange(
            "test change",
            "records",
            OutputRecord(fields(changes=len(operations))),
            before,
            (managed_ledger,) if managed_ledger else (),
            await save_cursors(cluster, managed_ledger, paths) if paths else (),
            tuple(lost),
        )

    async def act(_: CommandChange):
        if cut_off:
            raise asyncio.CancelledError
        async with await open_store(url) as store:
            await store.multi(operations)
        return fields(done=True)

    run_change(CommandContext(url, output_format="json"), ChangeOptions(yes=True, undo_file=undo_file), plan, act)


def killed_at(step: str):
    """A step hook that kills the process with SIGKILL."""

    def hook(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def _main(url: str, undo_file: str, step: str, path: str, text: str) -> None:
    from mledger.metastore.store import Put

    async def version() -> int:
        async with await open_store(url) as store:
            return (await store.get(path)).version

    change_command.on_step = killed_at(step)
    change_records(url, Path(undo_file), [Put(path, text.encode(), asyncio.run(version()))])


if __name__ == "__main__":
    _main(*sys.argv[1:])

"""Something that happens while a command is at a step: what another program does between its plan and its act."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mledger.cli.shared.changes import change_command


def meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, work: Callable[[], object]) -> None:
    """Carry out `work`, in a thread, when a command comes to `step` for the first time."""
    left = [work]

    def at(name: str) -> None:
        if name == step and left:
            with ThreadPoolExecutor() as pool:
                pool.submit(left.pop()).result()

    monkeypatch.setattr(change_command, "on_step", at)

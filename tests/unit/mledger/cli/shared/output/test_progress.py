"""Progress bars: shown on a terminal only."""

import sys

from mledger.cli.shared.output.progress import HiddenProgress, progress_bar


def test_a_terminal_shows_the_bar(monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert not isinstance(progress_bar("reading", "ledgers", wanted=True), HiddenProgress)


def test_formats_for_programs_hide_the_bar_on_a_terminal_too(monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(progress_bar("reading", "ledgers", wanted=False), HiddenProgress)


def test_a_hidden_bar_accepts_what_a_shown_one_does() -> None:
    with progress_bar("reading", "ledgers", wanted=False) as progress:
        task = progress.add_task("", total=None)
        progress.advance(task)
        progress.advance(task, 3)
        progress.update(task, completed=4, total=5, description="five")

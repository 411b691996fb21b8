"""Seeds are accumulated round by round, until one of them violates something."""

from tests.sim import __main__ as command


def _accumulated(monkeypatch, violated: int) -> tuple[int, list[tuple[int, int]]]:
    """The exit code, and the first and last seed of each round recorded, when `violated` violates something."""
    recorded = []
    monkeypatch.setattr(command, "next_seed", lambda runs: 100)
    monkeypatch.setattr(command, "add", lambda run: recorded.append((run.first, run.last)))
    monkeypatch.setattr(
        command, "_search", lambda seeds, processes: ({str(violated): "lost"} if violated in seeds else {}, 1.0, 10)
    )
    return command.main(["--accumulate", "1200"]), recorded


def test_every_round_is_recorded(monkeypatch):
    assert _accumulated(monkeypatch, violated=0) == (0, [(100, 599), (600, 1099), (1100, 1299)])


def test_the_round_that_violates_something_is_the_last(monkeypatch):
    assert _accumulated(monkeypatch, violated=700) == (1, [(100, 599), (600, 1099)])

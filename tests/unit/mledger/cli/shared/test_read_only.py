"""What a command prints while it waits for a bookie."""

from mledger.cli.shared.read_only import read_only_cluster, report_waiting
from tests.support.aio import run


def test_a_wait_is_reported_when_it_begins_and_every_five_seconds(capsys):
    tell = report_waiting()
    for seconds in range(1, 12):
        tell("10.0.0.1:3181", float(seconds))
    assert capsys.readouterr().err.splitlines() == [
        f"mledger: warning: waiting for bookie 10.0.0.1:3181 ({seconds} s)" for seconds in (1, 6, 11)
    ]


def test_another_wait_and_another_bookie_are_reported_again(capsys):
    tell = report_waiting()
    for bookie, seconds in [("a:1", 3.0), ("b:1", 1.0), ("a:1", 1.0)]:
        tell(bookie, seconds)
    assert [line.split("bookie ")[1] for line in capsys.readouterr().err.splitlines()] == [
        "a:1 (3 s)",
        "b:1 (1 s)",
        "a:1 (1 s)",
    ]


def test_commands_say_which_bookie_they_wait_for(capsys):
    async def main():
        async with read_only_cluster("memory:") as cluster:
            cluster.bookies.on_waiting("10.0.0.1:3181", 1.0)

    run(main())
    assert capsys.readouterr().err == "mledger: warning: waiting for bookie 10.0.0.1:3181 (1 s)\n"

"""A bookie with a fault built in, for the test that must find it: `python -m tests.support.broken_bookie FAULT …`."""

import os
import sys
import tempfile

from bookie.server import journal, process, turn


def answer_one_turn_early() -> None:
    """Answer a turn when the one before it is done."""
    submit = turn.JournalThread.submit

    def answer_and_submit(self, sequence, started):
        for client, parts in started.answers.items():
            client.send(parts)
        started.answers = {}
        submit(self, sequence, started)

    turn.JournalThread.submit = answer_and_submit


def sync_another_file() -> None:
    """Sync a file that holds nothing of the turn."""
    other = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process lives

    class WrongSync:
        """`os`, but for the sync."""

        def __getattr__(self, name):
            return getattr(os, name)

        @staticmethod
        def fdatasync(_):
            os.fdatasync(other.fileno())

    journal.os = WrongSync()


FAULTS = {"early": answer_one_turn_early, "wrong-file": sync_another_file}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(process.main(sys.argv[2:]))

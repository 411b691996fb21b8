"""A bookie with a built-in fault, for the test that must find it.

`python -m tests.support.bookies.broken_bookie FAULT …` starts it. With `held-sync` no sync returns
while the file named by HOLD_VARIABLE exists.
"""

import asyncio
import errno
import os
import sys
import tempfile
import time

from mledger.bookie.server.process import main
from mledger.bookie.server.serving import connection, group_commit
from mledger.bookie.server.storage import journal
from mledger.bookie.server.storage.records import journal_record

HOLD_VARIABLE = "HOLD_SYNCS"


def answer_one_turn_early() -> None:
    """Answer the adds of a turn when the turn before it is synced; write the turn after its answers have left."""
    submit = group_commit.JournalThread.submit

    def answer_and_submit(self, sequence, started):
        for client, parts in started.answers.items():
            client.send(parts)
        started.answers = {}
        asyncio.get_running_loop().call_later(0.001, submit, self, sequence, started)

    group_commit.JournalThread.submit = answer_and_submit


def sync_another_file() -> None:
    """Sync a file that holds none of the turn's bytes."""
    other = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process lives

    class WrongSync:
        """`os`, but for the sync."""

        def __getattr__(self, name):
            return getattr(os, name)

        @staticmethod
        def fdatasync(_):
            os.fdatasync(other.fileno())

    journal.os = WrongSync()


def fail_third_sync() -> None:
    """Make the third sync fail."""
    syncs = []

    class FailingSync:
        """`os`, but for the sync."""

        def __getattr__(self, name):
            return getattr(os, name)

        @staticmethod
        def fdatasync(file):
            syncs.append(file)
            if len(syncs) == 3:
                raise OSError(errno.EIO, "Input/output error")
            os.fdatasync(file)

    journal.os = FailingSync()


def hold_syncs() -> None:
    """Make every sync wait while a file exists."""
    held = os.environ[HOLD_VARIABLE]

    class HeldSync:
        """`os`, but for the sync."""

        def __getattr__(self, name):
            return getattr(os, name)

        @staticmethod
        def fdatasync(file):
            while os.path.exists(held):
                time.sleep(0.005)
            os.fdatasync(file)

    journal.os = HeldSync()


def fail_third_answer() -> None:
    """Make sending the third answer after a sync fail, as a transport can."""
    send, sent = connection.Connection.send, []

    def failing(self, parts):
        if not self._answering:
            sent.append(parts)
            if len(sent) == 3:
                raise RuntimeError("the transport is gone")
        send(self, parts)

    connection.Connection.send = failing


def fail_third_record() -> None:
    """Make encoding the third record fail, as a lack of memory does."""
    encode, encoded = journal_record.encode_changes, []

    def failing(changes, *, moved=False):
        encoded.append(changes)
        if len(encoded) == 3:
            raise MemoryError("no memory for the record")
        return encode(changes, moved=moved)

    journal_record.encode_changes = failing


FAULTS = {
    "failing-answer": fail_third_answer,
    "failing-record": fail_third_record,
    "held-sync": hold_syncs,
    "early": answer_one_turn_early,
    "wrong-file": sync_another_file,
    "failing-sync": fail_third_sync,
}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(main.main(sys.argv[2:]))

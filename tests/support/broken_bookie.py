"""A bookie with a fault built in, for the test that must find it: `python -m tests.support.broken_bookie FAULT …`.

With `held-sync` the disk stands still for as long as there is a file of the name in HOLD_VARIABLE.
"""

import asyncio
import errno
import os
import sys
import tempfile
import time

from mledger.bookie.server.process import main
from mledger.bookie.server.serving import connection, group_commit
from mledger.bookie.server.storage import journal, journal_record

HOLD_VARIABLE = "HOLD_SYNCS"


def answer_one_turn_early() -> None:
    """Answer a turn when the one before it is done; it is written once the answers have left."""
    submit = group_commit.JournalThread.submit

    def answer_and_submit(self, sequence, started):
        for client, parts in started.answers.items():
            client.send(parts)
        started.answers = {}
        asyncio.get_running_loop().call_later(0.001, submit, self, sequence, started)

    group_commit.JournalThread.submit = answer_and_submit


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


def fail_third_sync() -> None:
    """Have the disk fail."""
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
    """Have the disk stand still while a file is there."""
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
    """Have the third answer that follows a sync fail, as a transport may."""
    send, sent = connection.Connection.send, []

    def failing(self, parts):
        if not self._answering:
            sent.append(parts)
            if len(sent) == 3:
                raise RuntimeError("the transport is gone")
        send(self, parts)

    connection.Connection.send = failing


def fail_third_record() -> None:
    """Have what is to be the third record not become one, as when memory is short."""
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

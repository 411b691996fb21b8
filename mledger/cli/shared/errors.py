"""The exit code of each error, and its text on one line."""

import contextlib
import functools
import os
from collections.abc import Iterator

from mledger.metastore import errors as metastore


class FileNotWritten(metastore.MledgerError):
    """A file for the user cannot be written: nothing new is at its place.

    Of a command that writes several, as the pages of a report, those that were written before stay.
    """


@contextlib.contextmanager
def writing_file(path: os.PathLike[str] | str) -> Iterator[None]:
    """Have an error of the system name the file that is written. FileNotWritten."""
    try:
        yield
    except (TimeoutError, ConnectionError):  # of what is written, not of the file
        raise
    except OSError as error:
        raise FileNotWritten(
            f"{path} cannot be written: {error.strerror or error}; make room, or name another file"
        ) from error


OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
CONFLICT = 4
UNAVAILABLE = 5


@functools.cache
def _exit_codes() -> tuple[tuple[int, tuple[type[BaseException], ...]], ...]:
    """The errors of each exit code; the first match counts. Imported on first use, for a quick start."""
    from mledger import errors as mledger
    from mledger.bookie import errors as bookie
    from mledger.snapshot.exports import errors as exports
    from mledger.snapshot.zookeeper_files import errors as snapshot

    return (
        (
            NOT_FOUND,
            (
                metastore.NodeNotFound,
                bookie.NoSuchLedger,
                bookie.NoSuchEntry,
                mledger.NamespaceNotFound,
                mledger.TopicNotFound,
                mledger.CursorNotFound,
                mledger.TopicNotServed,
                snapshot.ChrootNotFound,
                exports.SnapshotNotFound,
            ),
        ),
        (
            USAGE,
            (
                metastore.InvalidName,
                metastore.InvalidMetadataUrl,
                metastore.InvalidSetting,
                bookie.InvalidQuorum,
                mledger.InvalidConfiguration,
                mledger.InvalidPosition,
                mledger.RetentionUnknown,
                snapshot.InvalidOption,
                exports.InvalidSnapshotName,
                exports.UnknownQuery,
            ),
        ),
        (
            CONFLICT,
            (
                metastore.NodeExists,
                metastore.BadVersion,
                bookie.LedgerFenced,
                bookie.LedgerConflict,
                mledger.TopicExists,
                mledger.CursorExists,
                mledger.ManagedLedgerFenced,
                mledger.OwnedElsewhere,
                mledger.TopicChanged,
                mledger.LedgerNamed,
                mledger.ForeignLedger,
                mledger.ShadowTopic,
                mledger.UndoConflict,
                exports.ExportBusy,
                exports.SnapshotExists,
            ),
        ),
        (
            UNAVAILABLE,
            (
                metastore.StoreUnavailable,
                metastore.ZooKeeperNotFound,
                metastore.ZooKeeperFailed,
                bookie.NotEnoughBookies,
                bookie.BookieUnavailable,
                bookie.RecoveryUndecided,
                mledger.CursorRecoveryFailed,
                mledger.BrokerUnavailable,
                TimeoutError,
            ),
        ),
    )


def exit_code(error: BaseException) -> int:
    """The exit code of `error` (docs/reference/cli.md)."""
    for code, kinds in _exit_codes():
        if isinstance(error, kinds):
            return code
    return FAILED


def one_line(error: BaseException) -> str:
    """The text of `error` on one line."""
    text = " ".join(str(error).split())
    if isinstance(error, metastore.MledgerError):
        return text
    if isinstance(error, TimeoutError):
        return text or "timed out: try again, or check with `mledger status` what is unavailable"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

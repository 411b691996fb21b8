"""Undo files on disk: written atomically, synced, readable by their owner only, never overwriting a file."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from mledger.admin.undo.undo_file import UndoFile, decode_undo_file, encode_undo_file
from mledger.errors import UndoFileError
from mledger.metastore.runtime.durable_files import (
    OWNER_ONLY,
    replace_file,
    sync_directory,
    take_new_name,
    write_beside,
)

SUBJECT_LENGTH = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def default_path(command: str, subject: str, made_at_ms: int) -> Path:
    """`mledger-undo-<command>-<subject>-<UTC time>.json` in the current directory."""
    at = datetime.fromtimestamp(made_at_ms // 1000, UTC).strftime("%Y%m%dT%H%M%S") + f".{made_at_ms % 1000:03d}Z"
    words = [_UNSAFE.sub("-", text.removeprefix("persistent://")).strip("-") for text in (command, subject)]
    return Path(f"mledger-undo-{words[0]}-{words[1][:SUBJECT_LENGTH]}-{at}.json")


def write_new(path: Path, file: UndoFile) -> None:
    """Write `file` to `path`, durable on return. Raises UndoFileError if `path` exists or cannot be written."""
    try:
        temporary = write_beside(path, encode_undo_file(file), OWNER_ONLY)  # it may hold properties that are private
        try:
            take_new_name(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise UndoFileError(f"{path} exists already: name another with --undo-file; nothing was changed") from None
    except OSError as error:
        raise UndoFileError(
            f"{path} cannot be written: {error.strerror}: name another with --undo-file; nothing was changed"
        ) from None


def rewrite(path: Path, file: UndoFile) -> None:
    """Replace the file at `path` with `file`, durable on return. Raises OSError."""
    replace_file(path, encode_undo_file(file), OWNER_ONLY)


def remove(path: Path) -> None:
    """Remove the undo file of a command that changed nothing."""
    os.unlink(path)
    sync_directory(path.parent)


def load(path: Path) -> UndoFile:
    """Read the undo file at `path`. Raises UndoFileError if it is invalid, and OSError."""
    try:
        return decode_undo_file(path.read_bytes())
    except UndoFileError as error:
        raise UndoFileError(f"{path}: {error}") from None

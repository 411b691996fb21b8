"""Stdout of a command: that all of a result gets there, and what it means if it does not."""

import errno
import io
import os
import sys
from typing import TextIO


def buffer_stdout() -> None:
    """Have stdout keep what could not be written, also with PYTHONUNBUFFERED.

    Without a buffer a write that the system carries out in part is taken for a whole one, and what failed to be
    written is forgotten: the output is cut, and nothing tells so. Each line is written at once, as is asked for.
    """
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and isinstance(stdout.buffer, io.RawIOBase):
        sys.stdout = open(  # noqa: SIM115 - for good
            stdout.fileno(), "w", buffering=1, encoding=stdout.encoding, errors=stdout.errors, closefd=False
        )


def problem_of(stream: TextIO) -> OSError | None:
    """What keeps a stream from being written; None if it can be."""
    try:
        stream.flush()
    except OSError as error:
        return error
    return None


def drop_unwritable(stream: TextIO) -> OSError | None:
    """As `problem_of`, and drops what cannot be written: else the interpreter would try again, and exit with 120."""
    problem = problem_of(stream)
    if problem is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return problem


def not_written(problem: OSError) -> str:
    """What a command says whose output cannot be written; empty if the reader has closed it, who knows."""
    return "" if problem.errno == errno.EPIPE else f"the output cannot be written: {problem.strerror}"

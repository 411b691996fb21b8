"""The line by which a server process says that it serves, and where."""

import json
import sys
from collections.abc import Callable, Mapping

from mledger.metastore.errors import MledgerError

Announcement = Callable[[Mapping[str, object]], None]
"""Called once a server can be reached, with what its line of JSON says."""


class NotAnnounced(MledgerError):
    """A server cannot say that it serves: nobody could tell that it does."""


def print_serving(fields: Mapping[str, object]) -> None:
    """Print `fields` on stdout as one line of JSON, at once. Raises as `print_line`."""
    print_line(json.dumps(fields))


def print_line(line: str) -> None:
    """Print the line by which a server says that it serves on stdout, at once.

    Raises:
        NotAnnounced: stdout cannot be written.
        BrokenPipeError: whoever was to read it has closed it.
    """
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotAnnounced(
            f"stdout, on which a server says that it serves, cannot be written: {error.strerror}; name a place that can"
        ) from error

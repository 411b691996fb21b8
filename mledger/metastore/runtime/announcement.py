"""The line by which a server process says that it serves, and where."""

import json
import sys
from collections.abc import Callable, Mapping

Announcement = Callable[[Mapping[str, object]], None]
"""Called once a server can be reached, with what its line of JSON says."""


def print_serving(fields: Mapping[str, object]) -> None:
    """Print `fields` on stdout as one line of JSON, at once."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()

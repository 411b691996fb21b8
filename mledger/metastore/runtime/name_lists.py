"""Long lists of names in one line of text; pure."""

from collections.abc import Sequence


def shorten(names: Sequence[str], limit: int = 5) -> str:
    """The first `limit` names, and the number of the others."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")

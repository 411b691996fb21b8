"""Reads of many nodes of which access control closes some."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mledger.metastore.errors import MetadataAccessDenied

T = TypeVar("T")


def all_or_error(outcomes: Sequence[T | BaseException]) -> list[T]:
    """The results, if there is no error among the outcomes of reads.

    Raises:
        MetadataAccessDenied: these nodes are closed; `closed` names all of them.
        BaseException: the first other error.
    """
    found: list[T] = []
    refused: list[MetadataAccessDenied] = []
    for outcome in outcomes:
        if isinstance(outcome, MetadataAccessDenied):
            refused.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            found.append(outcome)
    if refused:
        closed = frozenset[str]().union(*(each.closed for each in refused))
        raise MetadataAccessDenied(str(refused[0]), refused[0].path, closed) from refused[0]
    return found


async def read_open(
    read: Callable[[Sequence[str]], Awaitable[list[T | None]]], paths: Sequence[str], closed: set[str]
) -> list[T | None]:
    """What `read` finds at `paths`, in that order, None also for nodes that access control closes: `closed` gets those.

    Raises what `read` does for other reasons.
    """
    found: dict[str, T | None] = {}
    left = list(paths)
    while left:
        try:
            found.update(zip(left, await read(left), strict=True))
            break
        except MetadataAccessDenied as error:
            refused = error.closed.intersection(left)
            if not refused:
                raise
            closed |= refused
            left = [path for path in left if path not in refused]
    return [found.get(path) for path in paths]

"""Keeps the rows of nodes that changed recently in files of their own; pure.

Most of what changes in a night changed the night before, too. The export that continues a snapshot writes every file
anew with rows that change, and a file with all rows of a table takes as long as a full export of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from mledger.snapshot.tables.row_builder import Batch

FEW_ROWS = 4096
"""So few rows of a table need no file of their own: to write them anew takes no time that counts."""


def plan_parts(read: Iterable[tuple[bool, Batch]], part: str) -> Iterator[tuple[str, Batch]]:
    """Each batch after the name of the file that it belongs to: `part`, or `part`-recent.

    Before each batch of `read` is whether its rows are recent. Few other rows of a table go where its recent ones are.
    """
    recent, held, rows = f"{part}-recent", defaultdict[str, list[Batch]](list), defaultdict[str, int](int)
    with_recent: set[str] = set()
    for is_recent, batch in read:
        table, found = batch
        if is_recent:
            with_recent.add(table)
            yield recent, batch
            continue
        rows[table] += found.num_rows
        held[table].append(batch)
        if rows[table] > FEW_ROWS:
            yield from ((part, each) for each in held.pop(table))
    for table, batches in held.items():
        name = recent if table in with_recent else part
        yield from ((name, each) for each in batches)

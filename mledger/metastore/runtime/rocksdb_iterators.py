"""RocksDB's iterators, read so that damage is an error.

An iterator that meets a block it cannot read ends as if there were no more rows, and only its status says why.
"""

from rocksdict import Rdict, RdictIter, ReadOptions


def scan(family: Rdict) -> RdictIter:
    """An iterator for reading many rows once: their blocks take no place in the cache."""
    options = ReadOptions()
    options.fill_cache(False)
    return family.iter(options)


def scan_until(end: bytes, family: Rdict, *, once: bool = False) -> tuple[RdictIter, ReadOptions]:
    """An iterator over the rows before the key `end`, and what must live as long: the iterator has no copy of `end`.

    An iterator without an end that finds no row goes on to the next one, over all that was deleted on the way. `once`:
    as `scan`.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    options.fill_cache(not once)
    return family.iter(options), options


def at_row(rows: RdictIter) -> bool:
    """Whether the iterator stands at a row.

    Raises what RocksDB says where it ended because of damage, as rocksdict does: an Exception of no narrower type.
    """
    if rows.valid():
        return True
    rows.status()
    return False

"""What the owners of these tests write: entries that name their owner and their number."""

from tests.faults.checker import FoundEntries, Kind, Violation


def payload(epoch: int, number: int, size: int = 0) -> bytes:
    """Entry `number` of the owner of `epoch`; sizes vary, or are `size` bytes."""
    head = b"%d %d " % (epoch, number)
    return head + b"x" * (size - len(head) if size else 64 + number % 97)


def decode_entries(entries: "list[tuple[int, int, bytes]]", size: int = 0) -> tuple[FoundEntries, list[Violation]]:
    """Ledger, entry and payload of each, in the form of the checker. Names those whose bytes no owner wrote."""
    rows, altered = [], []
    for ledger, entry, data in entries:
        try:
            epoch, number = map(int, data.split(b" ", 2)[:2])
        except ValueError:
            epoch = number = -1
        if epoch < 0 or data != payload(epoch, number, size):
            altered.append(Violation(Kind.ALTERED, f"{ledger}:{entry} holds {data[:40]!r}"))
        rows.append((ledger, entry, epoch, number))
    return FoundEntries.of(rows), altered

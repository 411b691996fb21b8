"""What the owners of these tests write: entries that say whose they are, and how many came before."""

from tests.faults.checker import FoundEntries, Kind, Violation


def payload(epoch: int, number: int, size: int = 0) -> bytes:
    """Entry `number` of the owner of `epoch`; sizes differ, or are `size` bytes."""
    head = b"%d %d " % (epoch, number)
    return head + b"x" * (size - len(head) if size else 64 + number % 97)


def decode_entries(entries: "list[tuple[int, int, bytes]]", size: int = 0) -> tuple[FoundEntries, list[Violation]]:
    """Ledger, entry and payload of each, as what the checker takes; those whose bytes no owner wrote are named."""
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

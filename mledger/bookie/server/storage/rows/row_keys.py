"""The keys of the index's rows: all rows of a ledger stand together, in the order of its entries."""


def ledger_key(ledger: int) -> bytes:
    """The key of a ledger, with which the keys of its entries begin."""
    return ledger.to_bytes(8, "big")


def entry_key(ledger: int, entry: int) -> bytes:
    """The key of a run by its first entry, or of a repeated add."""
    return ledger.to_bytes(8, "big") + entry.to_bytes(8, "big")

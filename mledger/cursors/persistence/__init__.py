"""How a cursor's state is kept: in a ledger of its own, and in its record."""

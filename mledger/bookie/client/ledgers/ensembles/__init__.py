"""The bookies of an open ledger: connections, changes, and what replaces one that failed."""

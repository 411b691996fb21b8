"""The ledgers of a topic: their list and records, the open ledger, reads, ownership and retention."""

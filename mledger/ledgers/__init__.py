"""The ledgers of a topic: their list and records, the one being written, reads, ownership, and retention."""

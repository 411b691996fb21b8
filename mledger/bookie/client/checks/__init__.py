"""Checks that only read: of bookies, and of every replica of a ledger."""

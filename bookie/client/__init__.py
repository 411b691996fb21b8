"""Ledger handles over bookies: ensembles, quorums, fencing, recovery."""

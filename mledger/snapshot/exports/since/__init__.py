"""Exports made from an older snapshot and the transactions since, at a cost that follows what changed."""

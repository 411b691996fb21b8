"""Decisions without I/O: placement, quorums, racks, recovery, and where replicas belong."""

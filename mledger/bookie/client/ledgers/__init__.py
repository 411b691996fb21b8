"""Handles of ledgers: written, read, recovered, or peeked at without fencing."""

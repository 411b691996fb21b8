"""Durable cursors: acknowledgement state, persistence, recovery, positions and reads."""

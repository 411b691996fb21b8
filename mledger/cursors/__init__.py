"""Durable cursors: acknowledgement state, its persistence and recovery, positions, and reads."""

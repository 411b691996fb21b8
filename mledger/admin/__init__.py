"""Inspects topics and cursors without opening them, and repairs and undoes changes to their records."""

"""Snapshots of the tables on disk: written atomically, listed, verified, and removed when there are too many."""

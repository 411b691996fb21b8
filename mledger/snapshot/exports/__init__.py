"""Snapshots of the tables on disk: written whole or not at all, listed, verified, kept so many."""

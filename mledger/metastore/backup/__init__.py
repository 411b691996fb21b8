"""Backup of a metadata tree to a file, and its restore."""

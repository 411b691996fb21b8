"""Metadata stores of every kind, and clients of them that freeze."""

"""Visitors of the console, for tests."""

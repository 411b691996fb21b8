"""A demo of the public API on real data."""

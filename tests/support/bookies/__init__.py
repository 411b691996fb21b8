"""Bookies as processes, on the test's loop, broken and silent, and what they leave."""

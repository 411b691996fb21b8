"""The fixes that can be taken out, by topic."""

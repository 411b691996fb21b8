"""A running cluster in anybody's tests: the pytest plugin of the distribution (`docs/how-to/testing.md`)."""

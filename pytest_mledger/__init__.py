"""The pytest plugin of the distribution: a running cluster for your tests (`docs/how-to/testing.md`)."""

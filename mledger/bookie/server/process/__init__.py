"""The process of a bookie: options, settings, registration, metrics, and garbage collection."""

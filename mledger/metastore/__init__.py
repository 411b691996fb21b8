"""The metadata store: its interface and implementations, its paths, and the records that it holds."""

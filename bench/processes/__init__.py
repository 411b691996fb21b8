"""The processes that benchmarks start, each a module with its own command line that prints one JSON object."""

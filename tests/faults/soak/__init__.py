"""Long and hostile runs: `python -m tests.faults.soak --help`."""

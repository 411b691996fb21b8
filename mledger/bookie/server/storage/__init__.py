"""A bookie's storage: its directory, journal, index, runs of entries, and ledgers."""

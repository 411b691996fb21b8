"""The entries of a topic's ledgers: as they are appended, cached and read."""

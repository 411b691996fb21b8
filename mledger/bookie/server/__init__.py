"""A bookie: journal, store, ledgers, connections, the process."""

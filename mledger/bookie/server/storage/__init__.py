"""What a bookie keeps: journal, index, runs of entries, ledgers, and its directory."""

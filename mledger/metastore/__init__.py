"""What the metadata store holds: the store itself, names, and the records of ledgers, cursors and bookies."""

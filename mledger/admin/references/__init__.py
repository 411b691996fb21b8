"""References to ledgers, from topics, cursors, schemas and offloaded data, and ledgers that nothing references."""

"""What names ledgers: topics, cursors, schemas, offloaded data, and ledgers that nothing names."""

"""What a cursor has acknowledged: the state, its records, the bits of batches."""

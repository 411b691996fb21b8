"""What waits: for acknowledgement, for its time, to be replayed."""

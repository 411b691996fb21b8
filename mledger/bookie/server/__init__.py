"""A bookie: its storage, its connections, and its process."""

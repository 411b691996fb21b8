"""SQL queries about snapshots, and what runs them."""

"""Non-persistent topics: their messages go from producers to consumers, and are stored nowhere (D12)."""

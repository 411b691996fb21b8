"""What a cluster keeps in the metadata store: ledgers, bookies, cookies, layout, policies, auto-recovery."""

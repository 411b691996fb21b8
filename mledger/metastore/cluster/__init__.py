"""A cluster's nodes in the metadata store: ledgers, bookies, cookies, layout, policies, auto-recovery."""

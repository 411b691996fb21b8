"""Which records name which ledgers, and what crashes leave that none names: no orphan stays (R10)."""

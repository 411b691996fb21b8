"""Managed ledgers: opening, appends, rollover, trimming, deletion, and one owner's shared services."""

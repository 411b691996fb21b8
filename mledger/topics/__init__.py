"""Managed ledgers: opening, appends, rollover, trimming, deletion, and what the topics of one owner share."""

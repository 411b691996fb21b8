"""The metadata of open ledgers: read and written many at a time."""

"""Bookies: BookKeeper's protocol, digests of entries, the server, and the client."""

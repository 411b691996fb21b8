"""Entries on disk and on the wire: BookKeeper's protocol, digests, the server and the client."""

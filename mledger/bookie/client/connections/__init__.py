"""Connections to bookies, requests on them, and which bookies fail."""

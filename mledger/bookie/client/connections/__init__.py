"""Connections to bookies, the requests on them, and failures of bookies."""

"""The results of all queries about a snapshot on one HTML page."""

"""A snapshot's questions answered on one HTML page."""

"""Shared by every server and owner: settings files, logs, an HTTP endpoint, durations."""

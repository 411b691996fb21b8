"""The transactions of a server's logs: a range, a growing log, and what each one did to nodes."""

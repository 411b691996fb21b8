"""A broker's process: options, start, metrics, and an orderly end."""

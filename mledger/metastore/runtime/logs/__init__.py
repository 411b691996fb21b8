"""The log of a process: its loggers, a line of text, and rounds that fail again and again."""

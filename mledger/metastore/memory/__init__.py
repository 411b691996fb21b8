"""The metadata store in this process's memory."""

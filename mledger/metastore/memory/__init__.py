"""The metadata store in the memory of this process."""

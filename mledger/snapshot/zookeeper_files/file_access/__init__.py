"""Access to ZooKeeper's files: on this machine, or on other file systems by URI and ahead of the reader."""

"""The metadata store in ZooKeeper: its session, security, watches, and a launcher for a local server."""

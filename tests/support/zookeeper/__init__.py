"""Real ZooKeeper servers, and a model of their files."""

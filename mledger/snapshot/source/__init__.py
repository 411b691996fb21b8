"""Reads the nodes for tables, from a running metadata store or ZooKeeper's files; and the Spark data source."""

"""Where tables come from: a running metadata store or ZooKeeper's files, and the Spark data source."""

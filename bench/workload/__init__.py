"""What benchmarks write: payloads, a topic, and the metadata of a synthetic cluster as ZooKeeper's file."""

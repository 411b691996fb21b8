"""Which broker serves a topic, how many partitions a topic has, and which topics a namespace has."""

"""What benchmarks run on: a real cluster, the Java originals, a watch on processes, and the form of results."""

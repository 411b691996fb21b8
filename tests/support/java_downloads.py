"""Has Maven and pip fetch in advance what tests with Java need: `python -m tests.support.java_downloads`."""

from tests.support import delta, hdfs, java, pulsar_broker

if __name__ == "__main__":
    pulsar_broker.build()
    java.build()
    delta.build()
    hdfs.class_path()

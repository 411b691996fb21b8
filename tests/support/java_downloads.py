"""Has Maven and pip bring what tests with Java need, ahead of them: `python -m tests.support.java_downloads`."""

from tests.support import delta, java, pulsar_broker

if __name__ == "__main__":
    pulsar_broker.build()
    java.build()
    delta.build()

"""Has Maven bring what the tests of the originals need, ahead of them: `python -m tests.support.java_downloads`."""

from tests.support import java, pulsar_broker

if __name__ == "__main__":
    pulsar_broker.build()
    java.build()

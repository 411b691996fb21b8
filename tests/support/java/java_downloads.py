"""Has Maven and pip fetch what tests with other programs need: `python -m tests.support.java.java_downloads`."""

from tests.support.java import driver, pulsar_admin, pulsar_broker
from tests.support.snapshots import delta, hdfs, iceberg

if __name__ == "__main__":
    pulsar_broker.build()
    driver.build()
    pulsar_admin.build()
    delta.SPARK.build()
    iceberg.SPARK.build()
    iceberg.build_duckdb()
    hdfs.class_path()

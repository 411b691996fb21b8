"""Iceberg tables that tests look at by pyiceberg."""

from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.iceberg_tables import open_catalog


def iceberg_table(to, name="topics"):
    """A table of the catalog in a directory."""
    return open_catalog(local_place(to)).load_table(("pulsar", name))


def topics(*names):
    """Rows of the table `topics`."""
    return [{"topic": name, "managed_ledger": name} for name in names]


def names(table, **at):
    """The topics of a version."""
    return sorted(table.scan(**at).to_arrow()["topic"].to_pylist())


def metadata_files(to):
    """The files of versions that Iceberg's metadata has."""
    return {path.name for path in to.glob("_iceberg/*/metadata/*.avro")}

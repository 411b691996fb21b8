"""What is wrong with a client's bytes."""

from mledger.metastore.errors import MledgerError


class ProtocolError(MledgerError):
    """A client's bytes are not Pulsar's protocol: its connection ends with this reason, and nothing else does."""

"""Versions of the protocol, and what a client of each takes."""

from msgspec import Struct

from mledger.pb.PulsarApi_pb2 import CommandConnect

CURRENT = 21
"""The version that this broker speaks: Pulsar 4.2's."""


class ClientFeatures(Struct, frozen=True):
    """What a client takes, by the version and the feature flags of its CONNECT."""

    version: int = CURRENT
    reads_broker_metadata: bool = False
    """It says so; whether it is sent any is also the broker's setting exposingBrokerEntryMetadataToClientEnabled."""
    renews_credentials: bool = False

    @property
    def negotiated(self) -> int:
        """The version that both speak."""
        return min(self.version, CURRENT)

    @property
    def takes_pings(self) -> bool:
        """It answers PING."""
        return self.version >= 1

    @property
    def takes_batches(self) -> bool:
        """It reads batches; a connection that would be sent one ends otherwise."""
        return self.version >= 4

    @property
    def takes_closes(self) -> bool:
        """It knows that a broker closes a producer or consumer; otherwise its connection ends."""
        return self.version >= 5

    @property
    def takes_end_of_topic(self) -> bool:
        """It knows REACHED_END_OF_TOPIC."""
        return self.version >= 9

    @property
    def takes_checksums(self) -> bool:
        """It reads entries with checksums rightly."""
        return self.version >= 11

    @property
    def takes_active_changes(self) -> bool:
        """It knows ACTIVE_CONSUMER_CHANGE."""
        return self.version >= 12

    def takes_broker_metadata(self, exposed: bool) -> bool:
        """It is sent the broker's metadata of entries, if the broker's setting exposes that."""
        return exposed and self.reads_broker_metadata and self.version >= 18


def features_of(connect: CommandConnect) -> ClientFeatures:
    """What the client that sends `connect` takes."""
    flags = connect.feature_flags
    return ClientFeatures(
        version=max(connect.protocol_version, 0),
        reads_broker_metadata=flags.supports_broker_entry_metadata,
        renews_credentials=flags.supports_auth_refresh,
    )

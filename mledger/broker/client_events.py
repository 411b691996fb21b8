"""What a client's requests do to a topic, as events; with those of the storage they are one timeline."""

from dataclasses import dataclass
from typing import ClassVar

from mledger.events import Event


@dataclass(frozen=True, slots=True)
class RequestAllowed(Event):
    """A client may do what it asks for; `role` is empty where every client may do everything."""

    name: ClassVar[str] = "request allowed"
    client: str
    operation: str
    role: str = ""

    def describe(self) -> str:
        """The event in one line."""
        why = f"role {self.role}" if self.role else "authorization is disabled"
        return f"Allowed {self.operation} of {self.client}: {why}"


@dataclass(frozen=True, slots=True)
class PartitionsAnswered(Event):
    """A client was told how many partitions the topic has, 0 if it is not partitioned."""

    name: ClassVar[str] = "partitions answered"
    client: str
    partitions: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Told {self.client} the number of partitions: {self.partitions}"


@dataclass(frozen=True, slots=True)
class LookupAnswered(Event):
    """A client was told which broker serves the topic, or which one to ask (`redirect`)."""

    name: ClassVar[str] = "lookup answered"
    client: str
    url: str
    redirect: bool

    def describe(self) -> str:
        """The event in one line."""
        return f"Looked up for {self.client}: {self.url}, redirect {self.redirect}"


@dataclass(frozen=True, slots=True)
class Subscribing(Event):
    """A client subscribes."""

    name: ClassVar[str] = "subscribing"
    client: str
    subscription: str

    def describe(self) -> str:
        """The event in one line."""
        return f"Subscribing {self.client} to {self.subscription}"


@dataclass(frozen=True, slots=True)
class LoadingTopic(Event):
    """A client wants a topic that is not open here."""

    name: ClassVar[str] = "loading topic"

    def describe(self) -> str:
        """The event in one line."""
        return f"Loading topic {self.topic}"


@dataclass(frozen=True, slots=True)
class TopicLoaded(Event):
    """The topic serves clients."""

    name: ClassVar[str] = "topic created"
    deduplication: bool

    def describe(self) -> str:
        """The event in one line."""
        return f"Created topic {self.topic}, deduplication {self.deduplication}"


@dataclass(frozen=True, slots=True)
class ConsumerSubscribed(Event):
    """A client has its consumer on a subscription with `backlog` entries not acknowledged."""

    name: ClassVar[str] = "subscription created"
    client: str
    subscription: str
    consumer: str
    backlog: int

    def describe(self) -> str:
        """The event in one line."""
        return (
            f"Created subscription {self.subscription} of {self.client}: "
            f"consumer {self.consumer!r}, backlog {self.backlog}"
        )

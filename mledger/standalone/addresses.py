"""How to reach a standalone that runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StandaloneAddresses:
    """A standalone's URLs: `service_url` for Pulsar's clients, `admin_url` for HTTP, that of its metadata store.

    `data_dir` is where its data is.
    """

    service_url: str
    admin_url: str
    metadata_url: str
    data_dir: str

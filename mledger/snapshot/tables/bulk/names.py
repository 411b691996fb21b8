"""The columns that name the topics which own many ledgers; pure."""

from collections.abc import Sequence

import pyarrow as pa

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import SEGMENT, topic_of_element
from mledger.snapshot.tables.columns import TEXT
from mledger.snapshot.tables.decoder import owner_of
from mledger.snapshot.tables.node_kinds import namespace_of_folder

Found = tuple[int | None, str | None]
"""The index of a namespace, and the full name of a topic, or how those in a folder begin; None: no topic's."""

_NO_TOPIC: Found = (None, None)


class OwnerNames:
    """What managed ledgers' names say, as `owner_of` has it; each folder of topics is taken apart once."""

    def __init__(self, managed_ledgers: Sequence[str | None]) -> None:
        self._namespaces: dict[tuple[str, str], int] = {}
        self._places: list[int | None] = []
        self._topics: list[str | None] = []
        folders: dict[str, Found] = {}
        for name in managed_ledgers:
            place, topic = self._owner(name, folders) if name else _NO_TOPIC
            self._places.append(place)
            self._topics.append(topic)

    def _owner(self, name: str, folders: dict[str, Found]) -> Found:
        folder, _, element = name.rpartition("/")
        place, prefix = folders.get(folder) or folders.setdefault(folder, self._folder(folder))
        if prefix is not None:
            try:
                return place, prefix + topic_of_element(element)
            except InvalidName:
                return _NO_TOPIC
        key = owner_of(name)
        return _NO_TOPIC if key is None else (self._namespace(key.tenant, key.namespace), key.topic)

    def tenants(self) -> pa.Array:
        """The tenant of each, null without an owner."""
        return self._taken(0)

    def namespaces(self) -> pa.Array:
        """The namespace of each, likewise."""
        return self._taken(1)

    def topics(self) -> pa.Array:
        """The full name of each topic, likewise."""
        return pa.array(self._topics, TEXT)

    def _folder(self, folder: str) -> Found:
        """The namespace of the topics in a folder; of segments each name is taken apart."""
        if f"/{SEGMENT}/" in f"{folder}/":
            return _NO_TOPIC
        try:
            tenant, namespace, prefix = namespace_of_folder(folder)
        except InvalidName:
            return _NO_TOPIC
        return self._namespace(tenant, namespace), prefix

    def _namespace(self, tenant: str, namespace: str) -> int:
        return self._namespaces.setdefault((tenant, namespace), len(self._namespaces))

    def _taken(self, part: int) -> pa.Array:
        return pa.array([each[part] for each in self._namespaces], TEXT).take(pa.array(self._places, pa.int64()))

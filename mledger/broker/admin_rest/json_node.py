"""Nodes of the metadata store that hold one JSON object, as Pulsar's `/admin` nodes do: written with their version."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeAlias

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from mledger.metastore.store import MetadataReader, MetadataStore
from mledger.metastore.write_verification import create_own, put_own

JsonObject: TypeAlias = dict[str, Any]
Change = Callable[[JsonObject | None], JsonObject]
"""The content to write, from that which is there; None if there is no node. May raise AdminRefusal."""
DataChange = Callable[[bytes | None], bytes]
"""The same, of a node's data as it is. RecordError if that cannot be read."""

ATTEMPTS = 10


def decode_object(data: bytes, path: str) -> JsonObject:
    """The object in a node; an empty node is an empty object. RecordError."""
    if not data:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}", path) from None
    if not isinstance(found, dict):
        raise RecordError(f"{path} cannot be read: it holds no JSON object", path)
    return found


async def read_object(reader: MetadataReader, path: str) -> JsonObject | None:
    """The object at `path`, None if there is no node. RecordError."""
    (node,) = await reader.get_many([path])
    return None if node is None else decode_object(node.data, path)


async def change_object(store: MetadataStore, path: str, change: Change) -> JsonObject:
    """Write what `change` makes of the object at `path`, and return it; errors as of `change_data`."""

    def change_text(data: bytes | None) -> bytes:
        wanted = change(None if data is None else decode_object(data, path))
        return json.dumps(wanted, separators=(",", ":")).encode()

    return decode_object(await change_data(store, path, change_text), path)


async def change_data(store: MetadataStore, path: str, change: DataChange) -> bytes:
    """Write what `change` makes of the data at `path`, and return it; read again if somebody else wrote meanwhile.

    Raises:
        AdminRefusal: `change` refused, or others keep writing (409).
        RecordError: what is there cannot be read.
        MetadataError: the store does not answer.
    """
    for _ in range(ATTEMPTS):
        (node,) = await store.get_many([path])
        data = change(None if node is None else node.data)
        try:
            if node is None:
                await create_own(store, path, data)
            else:
                await put_own(store, path, data, node.version)
        except (BadVersion, NodeExists, NodeNotFound):
            await store.sync()  # the server asked may not know yet what was written meanwhile
            continue
        return data
    raise AdminRefusal(HTTPStatus.CONFLICT, f"{path} keeps changing: try again")

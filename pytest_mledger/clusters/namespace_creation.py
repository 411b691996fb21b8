"""Creates the namespaces of tests: a broker serves no topics of one that does not exist."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.metastore.url import open_store

_ONE_BUNDLE = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
_POLICIES = json.dumps({"bundles": _ONE_BUNDLE, "replication_clusters": ["standalone"]}).encode()


def create_namespace(metadata_url: str, name: str) -> None:
    """Create a namespace of one bundle, even if a loop runs in this thread. MetadataError if that fails."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _create(metadata_url, name)).result()


async def _create(metadata_url: str, name: str) -> None:
    async with await open_store(metadata_url) as store:
        await store.create(f"{NAMESPACE_POLICIES}/{name}", _POLICIES, parents=True)

"""Namespaces made in a metadata store, as an operator creates them before clients may use them."""

import json

from mledger.broker.admin_rest.namespaces.policies_node import plan_new_policies, policies_path
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from tests.support.aio import run

BUNDLES = 4


async def create_namespace(store: MetadataStore, namespace: str, bundles: int = BUNDLES) -> None:
    """Write the policies with which a namespace begins."""
    policies = plan_new_policies({}, "standalone", bundles)
    await store.create(policies_path(namespace), json.dumps(policies).encode(), parents=True)


def create_namespace_at(url: str, namespace: str, bundles: int = BUNDLES) -> str:
    """Create a namespace in the store at `url`, outside of any loop, and return its name."""

    async def main() -> None:
        async with await open_store(url) as store:
            await create_namespace(store, namespace, bundles)

    run(main())
    return namespace

"""Creates the namespaces of tests: a broker serves no topics of one that does not exist."""

import json

from mledger.metastore.errors import MetadataError
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from pytest_mledger.metadata_exchange import exchange

_ONE_BUNDLE = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
_POLICIES = json.dumps({"bundles": _ONE_BUNDLE, "replication_clusters": ["standalone"]}).encode()


def create_namespace(directory: str, name: str) -> None:
    """Create a namespace of one bundle in the store of `directory`. MetadataError if it is refused."""
    create = pb.Operation(kind=pb.Operation.CREATE, path=f"{NAMESPACE_POLICIES}/{name}", data=_POLICIES)
    for answer in exchange(directory, pb.Request(write=pb.Write(operations=[create], with_parents=True))):
        if answer.HasField("refused"):
            raise MetadataError(f"the namespace {name} was not created: {answer.refused.message}")

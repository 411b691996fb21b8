"""What a metadata server's directory needs survives a power loss from its first answer on."""

import os

from mledger.metastore.rocksdb import directory
from mledger.metastore.rocksdb.server import MetadataServer
from tests.support.aio import run


class ListedAtSync:
    """`os`, but for the syncs of a directory: it notes what the directory held."""

    def __init__(self, path):
        self.directory, self.durable = path, []

    def __getattr__(self, name):
        return getattr(os, name)

    def fsync(self, file):
        os.fsync(file)
        if os.path.samestat(os.fstat(file), os.stat(self.directory)):
            self.durable = os.listdir(self.directory)


def test_the_store_s_own_name_is_durable_before_it_serves(tmp_path, monkeypatch):
    syncs = ListedAtSync(tmp_path / "metadata")
    monkeypatch.setattr(directory, "os", syncs)

    async def main():
        server = await MetadataServer.open(str(tmp_path / "metadata"))
        await server.close()

    run(main())
    assert {"FORMAT", "store"} <= set(syncs.durable)

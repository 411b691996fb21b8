"""What a metadata server's directory needs survives a power loss from its first answer on."""

from mledger.metastore.rocksdb import directory
from mledger.metastore.rocksdb.server import MetadataServer
from tests.support.aio import run
from tests.support.bookies.power_loss import ListedAtSync


def test_the_store_s_own_name_is_durable_before_it_serves(tmp_path, monkeypatch):
    syncs = ListedAtSync(tmp_path / "metadata")
    monkeypatch.setattr(directory, "os", syncs)

    async def main():
        server = await MetadataServer.open(str(tmp_path / "metadata"))
        await server.close()

    run(main())
    assert {"FORMAT", "store"} <= set(syncs.durable)

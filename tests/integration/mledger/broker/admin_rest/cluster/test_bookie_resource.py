"""Bookies and their racks."""

from mledger.metastore.cluster.racks import decode_racks
from tests.support.admin_rest import web_served
from tests.support.aio import run


def test_racks_are_written_where_the_placement_reads_them(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            (bookie,) = [each["bookieId"] for each in (await broker.get("bookies/all"))["bookies"]]
            path = f"bookies/racks-info/{bookie}"
            await broker.done("POST", f"{path}?group=default", {"rack": "/r1", "hostname": "h"})
            node = await broker.cluster.store.get("/bookies")
            assert decode_racks(node.data) == {"default": {bookie: "/r1"}}
            assert await broker.get(path) == {"rack": "/r1", "hostname": "h"}
            await broker.done("POST", f"{path}?group=other", {"rack": "/r2"})
            assert await broker.get("bookies/racks-info") == {"other": {bookie: {"rack": "/r2", "hostname": ""}}}
            assert (await broker.refused("POST", path, {"rack": "/r1"}))[0] == 412
            await broker.done("DELETE", path)
            assert (await broker.refused("GET", path))[0] == 404

    run(main())

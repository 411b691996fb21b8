"""Schemas over HTTP are those that clients see."""

import json

from mledger.broker.schemas.stored_schema import decode_locator
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run


def record(**fields):
    """A body with a record of such fields."""
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "JSON", "schema": json.dumps({"type": "record", "name": "A", "fields": listed}), "properties": {}}


def test_versions_are_added_compared_found_and_ended(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"schemas/{topic.removeprefix('persistent://')}"
            assert await broker.refused("GET", f"{path}/schema") == (404, "Schema not found")
            assert await broker.get(f"{path}/schemas") == {"getSchemaResponses": []}
            for _ in range(2):
                answer = await broker.ask("POST", f"{path}/schema", record(a="int"))
                assert answer.json == {"version": {"version": 0}}
            assert (await broker.refused("POST", f"{path}/schema", record(a="string")))[0] == 409
            answer = await broker.ask("POST", f"{path}/compatibility", record(a="string"))
            assert answer.json == {"schemaCompatibilityStrategy": "FULL", "compatibility": False}
            answer = await broker.ask("POST", f"{path}/version", record(a="int"))
            assert answer.json == {"version": 0}
            shown = await broker.get(f"{path}/schema/0")
            assert (shown["type"], shown["data"], shown["timestamp"] > 0) == ("JSON", record(a="int")["schema"], True)
            assert len((await broker.get(f"{path}/schemas"))["getSchemaResponses"]) == 1
            assert (await broker.ask("DELETE", f"{path}/schema")).json == {"version": 1}
            assert (await broker.refused("DELETE", f"{path}/schema"))[0] == 404
            assert (await broker.ask("POST", f"{path}/schema", record(a="string"))).json == {"version": {"version": 2}}

    run(main())


def test_the_metadata_say_where_all_versions_are(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"schemas/{topic.removeprefix('persistent://')}"
            assert await broker.get(f"{path}/metadata") is None
            await broker.done("POST", f"{path}/schema", record(a="int"))
            first = (await broker.get(f"{path}/metadata"))["info"]
            assert (first["entryId"], first["version"]) == (0, 0)
            await broker.done("DELETE", f"{path}/schema")
            found = await broker.get(f"{path}/metadata")
            assert found["index"] == [first, found["info"]]
            assert found["info"]["version"] == 1
            node = await broker.cluster.store.get(f"/{path}")
            assert found["info"]["ledgerId"] == decode_locator(node.data, path).info.position.ledgerId

    run(main())


def test_a_topic_s_schema_goes_with_it(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            name = topic.removeprefix("persistent://")
            for path in (f"persistent/{name}", f"persistent/{name}-many/partitions"):
                await broker.done("PUT", path, 2 if path.endswith("partitions") else None)
                schema = f"schemas/{path.removeprefix('persistent/').removesuffix('/partitions')}/schema"
                await broker.done("POST", schema, record(a="int"))
                await broker.done("DELETE", path)
                assert await broker.refused("GET", f"{schema}/0") == (404, "Schema not found")
                assert await broker.cluster.store.exists(f"/{schema.removesuffix('/schema')}") is None
                assert (await broker.ask("POST", schema, record(a="string"))).json == {"version": {"version": 0}}

    run(main())


def test_force_deletes_a_schema_whose_ledger_is_lost(broker_url, topic):
    async def main():
        path = f"schemas/{topic.removeprefix('persistent://')}/schema"
        async with web_served(broker_url) as broker:
            await broker.done("POST", path, record(a="int"))
            (node,) = await broker.cluster.store.get_many([f"/{path.removesuffix('/schema')}"])
            await broker.cluster.bookkeeper.delete_ledger(decode_locator(node.data, "").info.position.ledgerId)
        async with web_served(broker_url) as broker:  # the one before remembers what it read
            assert (await broker.refused("DELETE", path))[0] == 500
            assert (await broker.ask("DELETE", f"{path}?force=true")).json == {"version": -1}
            assert await broker.refused("GET", path) == (404, "Schema not found")
            assert (await broker.ask("POST", path, record(a="string"))).json == {"version": {"version": 0}}

    run(main())


def test_a_client_gets_the_schema_that_was_added(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"schemas/{topic.removeprefix('persistent://')}"
            await broker.done("POST", f"{path}/schema", record(a="int"))
            client = await broker.connect()
            found = await client.request(pb.BaseCommand.GET_SCHEMA, "getSchema", "getSchemaResponse", topic=topic)
            assert (found.schema.type, found.schema.schema_data.decode()) == (pb.Schema.Json, record(a="int")["schema"])

    run(main())

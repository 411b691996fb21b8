"""`/admin/v2/schemas`: the versions of a topic's schema."""

import json
from functools import partial
from http import HTTPStatus
from typing import Any

from mledger.broker.admin_rest.body_checks import MAX_LONG, json_object, number_of, texts
from mledger.broker.admin_rest.refusals import AdminRefusal, bad_request, not_found
from mledger.broker.admin_rest.requests import ADMIN, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.ownership import TopicOwnership
from mledger.broker.schemas.compatibility import IncompatibleSchema, check_valid, find_version
from mledger.broker.schemas.schema_registry import apart, bytes_of
from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema
from mledger.broker.schemas.topic_schemas import TopicSchemas
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaIndexEntry, SchemaLocator

_ONE = f"{ADMIN}/schemas/{{tenant}}/{{namespace}}/{{topic}}"
_SIZE = 4
_OTHER_NAMES = {"BYTES": SchemaType.NONE.name}
NO_VERSION = -1
"""What Pulsar answers where there is none."""


def plan_schema(body: Any) -> TopicSchema:
    """The schema in a body. AdminRefusal if it is none."""
    found = json_object(body, "a schema")
    kind, data = found.get("type"), found.get("schema", "")
    kind = _OTHER_NAMES.get(kind, kind) if isinstance(kind, str) else kind
    if not isinstance(kind, str) or kind not in SchemaType.__members__ or not isinstance(data, str):
        raise bad_request(f"there is no schema of type {kind!r}, or its definition is not text")
    if kind == SchemaType.AUTO_CONSUME.name:
        raise AdminRefusal(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"{kind} is what a consumer asks for, and no topic's schema"
        )
    stored = _stored_key_value(data) if kind == SchemaType.KEY_VALUE.name else data.encode()
    schema = TopicSchema(SchemaType[kind], stored, texts(found.get("properties"), "the properties"))
    try:
        check_valid(schema)
    except IncompatibleSchema as error:
        raise AdminRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"Invalid schema definition data: {error}") from None
    return schema


def schema_answer(version: SchemaVersion) -> dict[str, Any]:
    """A version as Pulsar shows it."""
    schema = version.schema
    return {
        "version": version.number,
        "type": schema.type.name,
        "timestamp": version.stored_ms,
        "data": _key_value(schema.data) if schema.type is SchemaType.KEY_VALUE else _text(schema.data),
        "properties": dict(schema.properties),
    }


def locator_answer(locator: SchemaLocator) -> dict[str, Any]:
    """Where a schema's versions are, as Pulsar shows it."""

    def shown(entry: SchemaIndexEntry) -> dict[str, int]:
        at = entry.position
        return {"ledgerId": at.ledgerId, "entryId": at.entryId, "version": entry.version}

    return {"info": shown(locator.info), "index": [shown(each) for each in locator.index]}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _stored_key_value(data: str) -> bytes:
    """The inverse of `_key_value`: an empty text is a schema without a definition. AdminRefusal."""
    try:
        found = json_object(_parsed(data), "a schema of type KEY_VALUE")
        parts = [b"" if each == "" else _written(each).encode() for each in (found["key"], found["value"])]
    except (ValueError, RecursionError, KeyError):
        raise bad_request("a schema of type KEY_VALUE is an object of JSON with a key and a value") from None
    return b"".join(len(part).to_bytes(_SIZE, "big") + part for part in parts)


class _Number(str):
    """A number as its JSON was: clients compare definitions byte by byte."""


def _parsed(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_no_number)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number that JSON has")


def _written(value: Any) -> str:
    """JSON without spaces, as Pulsar's brokers write it."""
    match value:
        case dict():
            return f"{{{','.join(f'{_written(name)}:{_written(each)}' for name, each in value.items())}}}"
        case list():
            return f"[{','.join(map(_written, value))}]"
        case _Number():
            return value
        case _:
            text = json.dumps(value, ensure_ascii=False)
            return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _key_value(data: bytes) -> str:
    """The schemas of key and value as one JSON object; each is stored after its size."""
    parts, at = [], 0
    for _ in range(2):
        end = at + _SIZE + max(0, int.from_bytes(data[at : at + _SIZE], "big", signed=True))
        text = _text(data[at + _SIZE : end])
        at = end
        try:
            parts.append(_parsed(text))
        except (ValueError, RecursionError):
            parts.append(text)
    return _written({"key": parts[0], "value": parts[1]})


async def _given(call: AdminCall) -> TopicSchema:
    """The schema in the body of a request. AdminRefusal as of `plan_schema`."""
    request = call.request
    return await apart(len(request.body), lambda: plan_schema(request.json()))


class SchemaResource:
    """Answers for the schemas of topics that `ownership`'s broker serves."""

    def __init__(self, schemas: TopicSchemas, ownership: TopicOwnership) -> None:
        self._schemas, self._ownership = schemas, ownership

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        read, write = Access.LOOKUP, Access.PRODUCE
        return [
            AdminRoute("GET", f"{_ONE}/schema", read, self.latest),
            AdminRoute("GET", f"{_ONE}/schema/{{version}}", read, self.version),
            AdminRoute("GET", f"{_ONE}/schemas", read, self.versions),
            AdminRoute("GET", f"{_ONE}/metadata", read, self.metadata),
            AdminRoute("POST", f"{_ONE}/schema", write, self.add),
            AdminRoute("DELETE", f"{_ONE}/schema", Access.TENANT_ADMIN, self.delete),
            AdminRoute("POST", f"{_ONE}/compatibility", Access.TENANT_ADMIN, self.compare),
            AdminRoute("POST", f"{_ONE}/version", read, self.find),
        ]

    async def latest(self, call: AdminCall) -> AdminAnswer:
        """The version that counts."""
        return await self._shown(call, None)

    async def version(self, call: AdminCall) -> AdminAnswer:
        """A version by its number."""
        return await self._shown(call, number_of(call.values["version"], "the version", low=0, most=MAX_LONG))

    async def versions(self, call: AdminCall) -> AdminAnswer:
        """All versions since the schema was deleted last."""
        await self._ownership.check(call, call.topic)
        found = await self._schemas.versions(call.topic)
        return json_answer({"getSchemaResponses": [schema_answer(each) for each in found]})

    async def metadata(self, call: AdminCall) -> AdminAnswer:
        """Where the versions are stored, those before a deletion too; without a body if there is none."""
        await self._ownership.check(call, call.topic)
        found = await self._schemas.locator(call.topic)
        return json_answer(None if found is None else locator_answer(found))

    async def add(self, call: AdminCall) -> AdminAnswer:
        """Add a version, unless the topic has it; the answer has its number."""
        schema = await _given(call)
        await self._ownership.check(call, call.topic)
        return json_answer({"version": {"version": (await self._schemas.add(call.topic, schema)).number}})

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """End the schema: the next one need not be compatible. With `force` nothing is left of it, readable or not."""
        await self._ownership.check(call, call.topic)
        if call.request.flag("force"):
            await self._schemas.remove(call.topic.partitioned)
            return json_answer({"version": NO_VERSION})
        return json_answer({"version": await self._schemas.delete(call.topic)})

    async def compare(self, call: AdminCall) -> AdminAnswer:
        """Whether a schema could be the next version."""
        schema = await _given(call)
        await self._ownership.check(call, call.topic)
        strategy, compatible = await self._schemas.compare(call.topic, schema)
        content = {"schemaCompatibilityStrategy": strategy.value, "compatibility": compatible}
        return json_answer(content, HTTPStatus.ACCEPTED)

    async def find(self, call: AdminCall) -> AdminAnswer:
        """The version that a schema is, -1 if it is none."""
        schema = await _given(call)
        await self._ownership.check(call, call.topic)
        versions = await self._schemas.versions(call.topic)
        size = bytes_of(schema, (each.schema for each in versions))
        found = await apart(size, partial(find_version, versions, schema))
        return json_answer({"version": NO_VERSION if found is None else found.number})

    async def _shown(self, call: AdminCall, number: int | None) -> AdminAnswer:
        await self._ownership.check(call, call.topic)
        found = await self._schemas.version(call.topic, number)
        if found is None or found.schema.deleted:
            raise not_found("Schema not found")
        return json_answer(schema_answer(found))

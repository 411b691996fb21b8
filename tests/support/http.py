"""HTTP requests as Prometheus sends them."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class HttpAnswer:
    """The answer of a server."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self):
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def samples(self) -> dict[str, float]:
        """The body as metrics: `name{label="value",…}` → value, labels sorted."""
        found = {}
        for family in text_string_to_metric_families(self.body):
            for sample in family.samples:
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found


async def get(port: int, path: str, **headers: str) -> HttpAnswer:
    """GET `path` from a server on this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    first, *rest = head.split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in rest)
    return HttpAnswer(int(first.split()[1]), fields, body)


def undocumented(response: HttpAnswer) -> list[str]:
    """The metrics of an answer that `monitoring.md` does not name, without those of the process and of a place."""
    text = (Path(__file__).parents[2] / "docs" / "reference/monitoring.md").read_text()
    named = set(re.findall(r"`(\w+)[`{]", text))
    special = re.compile(r"process_.*|bookie_ledger_dir_.*_usage")
    families = [family.name for family in text_string_to_metric_families(response.body)]
    return [name for name in families if not special.fullmatch(name) and not {name, f"{name}_total"} & named]

"""Entries on stdout: payloads as they are for a pipe, or one JSON object a line."""

import base64
import sys
from typing import BinaryIO

from cli.decoded import plain
from cli.output import Output, Value
from metastore.codec import decode_position_info


class EntryWriter:
    """Writes entries one after another; `raw` leaves out the newline that otherwise ends each payload."""

    def __init__(self, output: Output, *, raw: bool = False, stream: BinaryIO | None = None) -> None:
        self._output = output
        self._end = b"" if raw else b"\n"
        self._stream = stream or sys.stdout.buffer

    def write(self, position: str, payload: bytes) -> None:
        """Write one entry."""
        if self._output.json:
            self._output.json_line({"position": position, "size": len(payload), **_payload(payload)})
        else:
            self._stream.write(payload + self._end)

    def flush(self) -> None:
        """Hand everything to the system."""
        self._stream.flush()


class StateWriter:
    """Writes the entries of a cursor ledger as the states that they hold: one JSON object a line in either format."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, position: str, payload: bytes) -> None:
        """Write one entry; RecordError if it holds no state of a cursor."""
        state = plain(decode_position_info(payload, f"entry {position}").value)
        self._output.json_line({"position": position, "size": len(payload), "state": state})

    def flush(self) -> None:
        """Hand everything to the system."""
        sys.stdout.flush()


def _payload(payload: bytes) -> dict[str, Value]:
    try:
        return {"payload": payload.decode("utf-8")}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}

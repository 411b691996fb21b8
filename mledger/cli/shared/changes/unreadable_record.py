"""What a plan shows of a record that does not parse, so that it can be removed (M12)."""

from mledger.cli.shared.output.results import Value

SHOWN_BYTES = 256


def unreadable_record(reason: object, data: bytes) -> dict[str, Value]:
    """The fields of a plan: what is wrong with it, its size, and its first bytes in hexadecimal."""
    shown, more = data[:SHOWN_BYTES].hex(" ", 4), len(data) - SHOWN_BYTES
    return {
        "unreadable": str(reason),
        "record_bytes": len(data),
        "record": f"{shown} … and {more} more bytes; the undo file has them all" if more > 0 else shown,
    }

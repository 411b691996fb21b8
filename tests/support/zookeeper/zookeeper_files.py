"""Writes ZooKeeper's snapshot and log files, independently of the reader under test."""

import gzip
import struct
import zlib

import cramjam

PREALLOCATED = 512
EPHEMERAL, TTL, CONTAINER = "ephemeral", "ttl", "container"


def text(value):
    data = value.encode()
    return struct.pack(">i", len(data)) + data


def buffer(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def acl_list(entries):
    body = b"".join(struct.pack(">i", perms) + text(scheme) + text(name) for perms, scheme, name in entries)
    return struct.pack(">i", len(entries)) + body


class SnapshotWriter:
    """A snapshot file under construction; `nodes` are (path, data, list number, stat of nine fields) in pre-order."""

    def __init__(self, sessions, acls):
        self.data = struct.pack(">4siq", b"ZKSN", 2, -1)
        self.data += struct.pack(">i", len(sessions))
        self.data += b"".join(struct.pack(">qi", *session) for session in sessions.items())
        self.data += struct.pack(">i", len(acls))
        self.data += b"".join(struct.pack(">q", number) + acl_list(acl) for number, acl in acls.items())

    def node(self, path, data, acl, stat):
        path = "" if path == "/" else path
        self.data += text(path) + buffer(data) + struct.pack(">q", acl) + struct.pack(">qqqqiiiqq", *stat)

    def seal(self):
        self.data += struct.pack(">q", zlib.adler32(self.data)) + text("/")

    def finish(self, *, digest=None, last_zxid=None):
        """The end mark and the seals; `digest` is (zxid, value)."""
        self.data += text("/")
        self.seal()
        if digest is not None:
            self.data += struct.pack(">qiq", digest[0], 2, digest[1])
            self.seal()
        if last_zxid is not None:
            self.data += struct.pack(">q", last_zxid)
            self.seal()
        return self.data


def compressed(data, ending, block=32768):
    if ending == ".gz":
        return gzip.compress(data, mtime=0)
    if ending == ".snappy":
        blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + block])) for at in range(0, len(data), block)]
        body = b"".join(struct.pack(">i", len(one)) + one for one in blocks)
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + body
    return data


def operation_bytes(operation):
    """The code and the record of the operation; `operation` is (name, fields…)."""
    name, *fields = operation
    return _FORMS[name](*fields)


def _path_only(code):
    return lambda path: (code, text(path))


def _set_bytes(code):
    return lambda path, data, version: (code, text(path) + buffer(data) + struct.pack(">i", version))


def _number(code):
    return lambda number: (code, struct.pack(">i", number))


def _close_bytes(paths):
    """`paths` is None: no list, as before 3.6."""
    return -11, b"" if paths is None else struct.pack(">i", len(paths)) + b"".join(text(path) for path in paths)


def _multi_bytes(parts):
    coded = [operation_bytes(part) for part in parts]
    return 14, struct.pack(">i", len(parts)) + b"".join(
        struct.pack(">i", code) + buffer(record) for code, record in coded
    )


def _create_bytes(path, data, acl, kind, cversion):
    """`kind` is None, "two" (create2), "ephemeral", "container" or ("ttl", ms)."""
    head = text(path) + buffer(data) + acl_list(acl)
    if kind == CONTAINER:
        return 19, head + struct.pack(">i", cversion)
    if isinstance(kind, tuple):
        return 21, head + struct.pack(">iq", cversion, kind[1])
    return 15 if kind == "two" else 1, head + bytes([kind == EPHEMERAL]) + struct.pack(">i", cversion)


def transaction_bytes(zxid, operation, *, session=1, cxid=0, time=0, digest=None):
    code, record = operation_bytes(operation)
    tail = b"" if digest is None else struct.pack(">iq", 2, digest)
    return struct.pack(">qiqqi", session, cxid, zxid, time, code) + record + tail


def framed(record):
    return struct.pack(">qi", zlib.adler32(record), len(record)) + record + b"B"


def log_bytes(records, *, padding=PREALLOCATED):
    """A log file of these transaction records, padded with zeros."""
    return struct.pack(">4siq", b"ZKLG", 2, 0) + b"".join(framed(record) for record in records) + bytes(padding)


_FORMS = {
    "create": _create_bytes,
    "old create": lambda path, data, acl, ephemeral: (
        1,
        text(path) + buffer(data) + acl_list(acl) + bytes([ephemeral]),
    ),
    "delete": _path_only(2),
    "delete container": _path_only(20),
    "set": _set_bytes(5),
    "reconfig": _set_bytes(16),
    "set acl": lambda path, acl, version: (7, text(path) + acl_list(acl) + struct.pack(">i", version)),
    "check": lambda path, version: (13, text(path) + struct.pack(">i", version)),
    "error": _number(-1),
    "open": _number(-10),
    "close": _close_bytes,
    "multi": _multi_bytes,
}

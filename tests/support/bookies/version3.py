"""Version 3 requests as Java's client writes them."""

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from tests.support.bookies.raw_bookie import entry

_FIELDS = {
    pb.READ_ENTRY: "readRequest",
    pb.ADD_ENTRY: "addRequest",
    pb.WRITE_LAC: "writeLacRequest",
    pb.READ_LAC: "readLacRequest",
    pb.GET_BOOKIE_INFO: "getBookieInfoRequest",
    pb.START_TLS: "startTLSRequest",
    pb.FORCE_LEDGER: "forceLedgerRequest",
    pb.GET_LIST_OF_ENTRIES_OF_LEDGER: "getListOfEntriesOfLedgerRequest",
}


def request(operation, transaction=1, *, priority=None, version=pb.VERSION_THREE, **fields) -> bytes:
    """The frame of a request; `fields` are those of the operation's own message."""
    message = pb.Request(header=pb.BKPacketHeader(version=version, operation=operation, txnId=transaction))
    if priority is not None:
        message.header.priority = priority
    if operation in _FIELDS:
        own = getattr(message, _FIELDS[operation])
        own.SetInParent()
        for name, value in fields.items():
            setattr(own, name, value)
    data = message.SerializePartialToString()
    return wire.LENGTH.pack(len(data)) + data


def add(
    ledger,
    number,
    payload=b"payload",
    *,
    transaction=1,
    key=None,
    body=None,
    recovery=False,
    priority=None,
    write_flags=None,
    confirmed=None,
) -> bytes:
    """The frame of an add request."""
    fields = {"flag": pb.AddRequest.RECOVERY_ADD} if recovery else {}
    if write_flags is not None:
        fields["writeFlags"] = write_flags
    return request(
        pb.ADD_ENTRY,
        transaction,
        priority=priority,
        ledgerId=ledger,
        entryId=number,
        masterKey=master_key(b"") if key is None else key,
        body=entry(ledger, number, payload, confirmed) if body is None else body,
        **fields,
    )


def response(frame: bytes) -> pb.Response:
    """The decoded answer."""
    return pb.Response.FromString(frame[wire.LENGTH.size :])

"""Decides what a bookie's error answer to an add means for the ledger; no I/O."""

from mledger.bookie.errors import Code, LedgerFenced, NoSuchLedger, Unauthorized
from mledger.metastore.errors import MledgerError

UNAUTHORIZED = "the password is not the ledger's, or the bookie wants clients to authenticate; its log says which"
"""What a bookie's answer EUA means."""


def read_refusal(bookie_id: str, code: int, what: str) -> str:
    """Why a bookie's answer `code` to the read of `what` proves nothing."""
    if code == Code.UNKNOWN_LEDGER_STATE:
        return (
            f"bookie {bookie_id} began anew with empty directories and does not know whether it had {what}; if the "
            "other copies are gone for good, give the ledger up: `mledger topics drop-ledgers TOPIC LEDGER` if it is "
            "a topic's, `mledger ledgers delete LEDGER --force` if it is a cursor's"
        )
    return f"bookie {bookie_id}: error {code} to the read of {what}"


def plan_refusal(ledger_id: int, entry: int, bookie_id: str, code: int) -> MledgerError | None:
    """The error that ends the writing of the ledger; None if only the bookie is to be replaced (Q2).

    A fence, a wrong password and a deleted ledger concern the whole ledger: another bookie would answer the same.
    """
    where = f"ledger {ledger_id}, entry {entry}, bookie {bookie_id}"
    match code:
        case Code.FENCED:
            return LedgerFenced(f"{where}: fenced, another client has opened the ledger; stop writing it")
        case Code.UNAUTHORIZED:
            return Unauthorized(f"{where}: {UNAUTHORIZED}")
        case Code.NO_LEDGER:
            return NoSuchLedger(f"{where}: the ledger was deleted")
        case _:
            return None

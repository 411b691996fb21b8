"""Decides what a bookie's error answer to an add means for the ledger; no I/O."""

from mledger.bookie.errors import Code, LedgerFenced, NoSuchLedger, Unauthorized
from mledger.metastore.errors import MledgerError

UNAUTHORIZED = "the password is not the ledger's, or the bookie wants clients to authenticate; its log says which"
"""What a bookie's answer EUA means."""


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

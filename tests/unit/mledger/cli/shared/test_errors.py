"""Errors become one line and the documented exit code."""

import pytest

from mledger import errors as mledger
from mledger.bookie import errors as bookie
from mledger.cli.shared.errors import exit_code, one_line
from mledger.metastore import errors as metastore


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (metastore.RecordError("bad bytes", "/x"), 1),
        (bookie.DigestMismatch("bad"), 1),
        (bookie.Unauthorized("password"), 1),
        (mledger.InvalidConfiguration("E < Wq"), 2),
        (metastore.InvalidName("name"), 2),
        (metastore.InvalidMetadataUrl("url"), 2),
        (mledger.TopicNotFound("topic"), 3),
        (mledger.CursorNotFound("cursor"), 3),
        (bookie.NoSuchLedger("ledger"), 3),
        (mledger.OwnedElsewhere("owner"), 4),
        (mledger.ManagedLedgerFenced("fenced"), 4),
        (metastore.BadVersion("version"), 4),
        (metastore.StoreUnavailable("away"), 5),
        (metastore.SessionExpired("gone"), 5),
        (bookie.NotEnoughBookies("away"), 5),
        (mledger.CursorRecoveryFailed("later"), 5),
        (TimeoutError(), 5),
    ],
)
def test_exit_code_of(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_is_one_line() -> None:
    assert one_line(mledger.TopicNotFound("no topic\n  x")) == "no topic x"


def test_a_time_out_without_a_message_gets_one() -> None:
    assert "timed out" in one_line(TimeoutError())

"""Commands wait for bookies as long as settings say, and else not as long as servers do."""

from mledger.bookie.client.config import ClientConfig
from mledger.cli.shared.changes.topic_owner import ADD_TIMEOUT_S, _impatient
from mledger.settings import read_owner_settings


def test_a_command_waits_less_long_for_an_acknowledgement_than_a_server():
    assert _impatient(read_owner_settings(None)).add_timeout_s == ADD_TIMEOUT_S < ClientConfig().add_timeout_s


def test_a_time_out_that_is_set_holds_for_commands_too():
    given = read_owner_settings(None, ["bookkeeperClientTimeoutInSeconds=30"])
    assert _impatient(given).add_timeout_s == 30.0

"""The arguments of the functions that start a standalone."""

from mledger.standalone.api import plan_assignments


def test_settings_are_written_as_in_a_file():
    settings = {"brokerDeduplicationEnabled": True, "maxMessageSize": 1024, "clusterName": "west"}
    assert plan_assignments(settings) == ("brokerDeduplicationEnabled=true", "maxMessageSize=1024", "clusterName=west")

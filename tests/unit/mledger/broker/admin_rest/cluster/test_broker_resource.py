"""A broker's settings, shown under Pulsar's keys."""

from mledger.broker.admin_rest.cluster.broker_resource import broker_name, plan_runtime
from mledger.broker.lookup.broker_records import BrokerAddress, BrokerReport
from mledger.broker.settings import BrokerSettings, broker_settings
from mledger.metastore.runtime.settings import read_settings


def test_settings_are_shown_in_the_units_in_which_they_are_given():
    given = {
        "defaultNumPartitions": "3",
        "messageExpiryCheckIntervalInMinutes": "7",
        "delayedDeliveryTickTimeMillis": "500",
        "maxMessagePublishBufferSizeInMB": "64",
        "subscriptionTypesEnabled": "Shared,Failover",
        "allowAutoTopicCreation": "false",
    }
    settings = broker_settings(read_settings(None, [f"{key}={value}" for key, value in given.items()]))
    shown = plan_runtime(settings)
    assert {key: shown[key] for key in given} == given


def test_shown_settings_can_be_given_again():
    shown = plan_runtime(BrokerSettings())
    wanted = [f"{key}={value}" for key, value in shown.items() if value]
    assert broker_settings(read_settings(None, wanted)) == BrokerSettings()


def test_a_broker_is_called_by_the_address_of_its_http():
    assert broker_name(BrokerReport(BrokerAddress("h:6650", "pulsar://h:6650", web_url="http://h:8080"))) == "h:8080"
    assert broker_name(BrokerReport(BrokerAddress("h:6650", "pulsar://h:6650"))) == "h:6650"

"""How an owner reads a broker.conf and --set."""

import pytest

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.plans.topology import PlacementPolicy
from mledger.config import SETTINGS, ManagedLedgerConfig
from mledger.errors import InvalidConfiguration
from mledger.known_settings import KNOWN, is_known
from mledger.metastore.errors import InvalidSetting
from mledger.settings import OwnerSettings, read_owner_settings

BROKER_CONF = """\
### --- General broker settings --- ###
metadataStoreUrl=zk:a:1,b:2/pulsar
clusterName = test
brokerServicePort=6650
metadataStoreSessionTimeoutMillis=30000
metadataStoreOperationTimeoutSeconds=20
bookkeeperMetadataServiceUri=zk+hierarchical://c:3;d:4/ledgers
bookkeeperClientTimeoutInSeconds=30
bookkeeperClientHealthCheckQuarantineTimeInSeconds=1800
managedLedgerDefaultEnsembleSize=3
managedLedgerDefaultWriteQuorum=3
managedLedgerDefaultAckQuorum : 2
managedLedgerPassword=a\\u00e9
managedLedgerMaxEntriesPerLedger=
managedLedgerMaxUnackedRangesToPersistInZooKeeper=7
defaultRetentionTimeInMinutes=-1
defaultRetentionSizeInMB=-1
exposeTopicLevelMetricsInPrometheus=false
"""


@pytest.fixture
def broker_conf(tmp_path):
    """A broker.conf."""
    path = tmp_path / "broker.conf"
    path.write_text(BROKER_CONF)
    return str(path)


def test_without_settings_a_bookie_that_does_not_answer_adds_is_replaced_when_pulsar_replaces_it():
    assert read_owner_settings(None).client.add_timeout_s == 30.0


def test_a_broker_conf_is_read_unchanged(broker_conf):
    found = read_owner_settings(broker_conf)
    config = found.config
    assert (config.ensemble_size, config.write_quorum_size, config.ack_quorum_size) == (3, 3, 2)
    assert (config.password, config.retention_time_ms) == ("aé".encode(), -1)
    assert config.max_unacked_ranges_to_persist_in_metadata_store == 7
    assert config.max_entries_per_ledger == ManagedLedgerConfig().max_entries_per_ledger
    assert (found.client.add_timeout_s, found.client.read_timeout_s) == (30, 30)
    assert (found.client.quarantine_s, found.client.metadata_timeout_s) == (1800, 20)
    assert (found.session_timeout, found.cluster_name, found.topic_metrics) == (30, "test", False)
    assert found.url == "zk://a:1,b:2/pulsar?ledgers=zk+hierarchical://c:3;d:4/ledgers"
    assert (found.unknown, found.without_effect) == ((), ("brokerServicePort",))


@pytest.mark.parametrize("key", ["topicLevelPoliciesEnabled", "systemTopicEnabled"])
def test_policies_of_topics_are_off_where_they_or_their_topic_are(key):
    assert read_owner_settings(None).config.topic_level_policies
    found = read_owner_settings(None, [f"{key}=false"])
    assert not found.config.topic_level_policies
    assert found.without_effect == ()


def test_policies_of_topics_that_are_kept_elsewhere_are_refused_since_they_may_retain_something():
    usual = "topicPoliciesServiceClassName=org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
    other = "topicPoliciesServiceClassName=org.example.Policies"
    assert read_owner_settings(None, [usual]) == read_owner_settings(None)
    assert not read_owner_settings(None, [other, "topicLevelPoliciesEnabled=false"]).config.topic_level_policies
    with pytest.raises(InvalidSetting, match=r"topicPoliciesServiceClassName is org\.example\.Policies"):
        read_owner_settings(None, [other])


def test_no_settings_are_the_same_as_an_empty_file():
    assert read_owner_settings(None) == OwnerSettings()
    assert OwnerSettings().client == ClientConfig()


def test_an_assignment_wins_and_unknown_keys_are_reported(broker_conf):
    found = read_owner_settings(broker_conf, ["managedLedgerDefaultAckQuorum=3", "noSuch=1", "bookkeeper_x=1"])
    assert found.config.ack_quorum_size == 3
    assert (found.unknown, found.without_effect) == (("noSuch",), ("bookkeeper_x", "brokerServicePort"))


def test_racks_are_configured_by_pulsar_s_keys():
    assert read_owner_settings(None).client.placement == PlacementPolicy()
    prefix = "bookkeeperClient"
    found = read_owner_settings(
        None,
        [
            f"{prefix}RegionawarePolicyEnabled=true",
            f"{prefix}MinNumRacksPerWriteQuorum=3",
            f"{prefix}EnforceMinNumRacksPerWriteQuorum=true",
            f"{prefix}IsolationGroups=gold, silver",
            f"{prefix}SecondaryIsolationGroups=bronze",
        ],
    )
    wanted = PlacementPolicy(True, True, 3, True, frozenset({"gold", "silver"}), frozenset({"bronze"}))
    assert found.client.placement == wanted


def test_racks_both_enforced_and_switched_off_are_refused():
    settings = ["bookkeeperClientEnforceMinNumRacksPerWriteQuorum=true", "bookkeeperClientRackawarePolicyEnabled=false"]
    with pytest.raises(InvalidSetting, match="no placement policy is rack-aware"):
        read_owner_settings(None, settings)


def test_an_unsupported_placement_is_reported():
    settings = ["bookkeeperDiskWeightBasedPlacementEnabled=true", "bookkeeper_reppDnsResolverClass=x"]
    assert read_owner_settings(None, settings).not_honoured == (
        "bookkeeperDiskWeightBasedPlacementEnabled",
        "bookkeeper_reppDnsResolverClass",
    )
    assert read_owner_settings(None, ["bookkeeperDiskWeightBasedPlacementEnabled=false"]).not_honoured == ()


def test_strict_bookie_affinity_is_honoured():
    found = read_owner_settings(None, ["strictBookieAffinityEnabled=true"])
    assert found.config.strict_bookie_affinity
    assert (found.not_honoured, found.without_effect, found.unknown) == ((), (), ())


def test_a_speculative_read_time_of_zero_means_never():
    key = "bookkeeperClientSpeculativeReadTimeoutInMillis"
    assert read_owner_settings(None, [f"{key}=0"]).client.speculative_read_s == float("inf")
    assert read_owner_settings(None, [f"{key}=250"]).client.speculative_read_s == 0.25


def test_the_newer_of_two_names_of_a_setting_wins():
    found = read_owner_settings(None, ["metadataStoreSessionTimeoutMillis=1000", "zooKeeperSessionTimeoutMillis=2000"])
    assert found.session_timeout == 1
    assert read_owner_settings(None, ["zooKeeperSessionTimeoutMillis=2000"]).session_timeout == 2
    assert read_owner_settings(None, ["zookeeperServers=h:1,i:2"]).url == "zk://h:1,i:2"


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("managedLedgerMaxEntriesPerLedger=many", InvalidConfiguration, "is 'many': a number is needed"),
        ("managedLedgerMaxEntriesPerLedger=0", InvalidConfiguration, "is 0: set it to a number from 1"),
        ("managedLedgerDigestType=MD5", InvalidConfiguration, "CRC32C"),
        ("managedLedgerDefaultAckQuorum=5", InvalidConfiguration, "are invalid: ensemble"),
        ("bookkeeperClientTimeoutInSeconds=0", InvalidSetting, "a whole number from 1"),
        ("metadataStoreUrl=etcd:http://a", InvalidSetting, "etcd is not supported"),
        ("bookkeeperMetadataServiceUri=oxia://a", InvalidSetting, "oxia is not supported"),
        ("exposeTopicLevelMetricsInPrometheus=perhaps", InvalidSetting, "true or false"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(tmp_path, line, error, said):
    path = tmp_path / "broker.conf"
    path.write_text(f"clusterName=x\n\n{line}\n")
    with pytest.raises(error, match=said) as raised:
        read_owner_settings(str(path))
    assert f"{path}:3" in str(raised.value)


def test_every_key_of_a_topic_s_configuration_is_known_to_pulsar():
    assert [setting.key for setting in SETTINGS if not is_known(setting.key)] == []
    assert len(KNOWN) > 500

"""The result of a marker's arguments, without a cluster."""

import pytest

from pytest_mledger.clusters.cluster_options import ClusterOptions, InvalidClusterOption, owner_settings, plan_options


def test_the_nearer_argument_wins_and_the_others_stay():
    module = plan_options(ClusterOptions(), {"bookies": 1, "metadata": "zookeeper"})
    assert plan_options(module, {"bookies": 2}) == ClusterOptions(bookies=2, metadata="zookeeper")


def test_settings_are_added_key_by_key_in_any_order():
    module = plan_options(ClusterOptions(), {"settings": {"b": 1, "a": "x"}})
    nearer = plan_options(module, {"settings": {"b": 2}})
    assert nearer.settings == (("a", "x"), ("b", "2"))
    assert plan_options(ClusterOptions(), {"settings": {"b": 2, "a": "x"}}) == nearer


def test_booleans_are_written_as_in_a_broker_conf():
    assert plan_options(ClusterOptions(), {"settings": {"on": True}}).settings == (("on", "true"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bookie": 1}, "unknown argument bookie: write bookies=3"),
        ({"bookies": 0}, "bookies is 0: write a number from 1 to 16"),
        ({"bookies": 17}, "bookies is 17"),
        ({"bookies": "3"}, "bookies is '3'"),
        ({"bookies": True}, "bookies is True"),
        ({"metadata": "etcd"}, "metadata is 'etcd': write memory or zookeeper"),
        ({"metadata": ["memory"]}, "metadata is"),
        ({"settings": "a=b"}, "settings is 'a=b': write a dict"),
        ({"settings": {1: "a"}}, "write a dict of keys"),
        ({"settings": {"a": None}}, "settings: a is None: write a string"),
    ],
)
def test_bad_arguments_are_refused_with_what_to_write(given, said):
    with pytest.raises(InvalidClusterOption) as refused:
        plan_options(ClusterOptions(), given)
    assert said in str(refused.value)


def test_settings_have_the_names_of_a_broker_conf():
    options = plan_options(
        ClusterOptions(), {"settings": {"managedLedgerMaxEntriesPerLedger": 7, "zooKeeperSessionTimeoutMillis": 5000}}
    )
    settings = owner_settings(options)
    assert settings is not None
    assert (settings.config.max_entries_per_ledger, settings.session_timeout) == (7, 5.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"managedLedgerMaxEntriesPerLedgr": 7}, "managedLedgerMaxEntriesPerLedgr is unknown"),
        ({"managedLedgerMaxEntriesPerLedger": "many"}, "settings: managedLedgerMaxEntriesPerLedger"),
        ({"managedLedgerDefaultEnsembleSize": 1}, "are invalid: ensemble"),
        ({"metadataStoreUrl": "zk:127.0.0.1:2181"}, "the cluster has its own"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, said):
    with pytest.raises(InvalidClusterOption) as refused:
        owner_settings(plan_options(ClusterOptions(), {"settings": settings}))
    assert said in str(refused.value)

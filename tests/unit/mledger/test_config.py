"""The configuration of a managed ledger: names, defaults and ranges (M6)."""

import dataclasses
import re
from pathlib import Path

import pytest

from mledger.config import RANGES, SETTINGS, ManagedLedgerConfig, config_from_settings, plan_cache_mb
from mledger.errors import InvalidConfiguration
from mledger.metastore.records.ledger_metadata import DigestType


def test_defaults_are_those_of_pulsar_s_broker():
    config = ManagedLedgerConfig()
    assert (config.ensemble_size, config.write_quorum_size, config.ack_quorum_size) == (2, 2, 2)
    assert (config.digest_type, config.password) == (DigestType.CRC32C, b"")
    assert (config.max_entries_per_ledger, config.max_size_per_ledger) == (50_000, 2 * 1024**3)
    assert (config.minimum_rollover_time_ms, config.maximum_rollover_time_ms) == (600_000, 14_400_000)
    assert (config.metadata_max_entries_per_ledger, config.ledger_rollover_timeout_s) == (50_000, 14_400)
    assert (config.retention_time_ms, config.retention_size) == (0, 0)
    assert config.new_entries_check_delay_ms == 10


@pytest.mark.parametrize("quorums", [(2, 3, 2), (3, 2, 3), (1, 2, 1)])
def test_contradictory_quorums_are_refused_by_name(quorums):
    ensemble, write, ack = quorums
    with pytest.raises(InvalidConfiguration, match="ensemble >= write quorum >= ack quorum >= 1 is needed"):
        ManagedLedgerConfig(ensemble_size=ensemble, write_quorum_size=write, ack_quorum_size=ack)


@pytest.mark.parametrize("name", RANGES)
def test_every_number_is_checked_against_its_range(name):
    low, high = RANGES[name]
    for value in (low - 1, high + 1, "7", None, True):
        with pytest.raises(InvalidConfiguration):
            ManagedLedgerConfig(**{name: value})


def test_an_error_names_the_setting_as_pulsar_does():
    with pytest.raises(
        InvalidConfiguration, match="managedLedgerMaxEntriesPerLedger is 0: set it to a number from 1 to"
    ):
        ManagedLedgerConfig(max_entries_per_ledger=0)


def test_a_minimum_above_the_maximum_rollover_time_is_refused():
    with pytest.raises(InvalidConfiguration, match="above the maximum"):
        ManagedLedgerConfig(minimum_rollover_time_ms=2, maximum_rollover_time_ms=1)
    ManagedLedgerConfig(minimum_rollover_time_ms=2, maximum_rollover_time_ms=0)


def test_minus_one_is_unlimited_retention():
    assert ManagedLedgerConfig(retention_time_ms=-1, retention_size_in_mb=-1).retention_size == -1


def test_every_field_has_a_setting_and_every_number_a_range():
    names = {item.name for item in dataclasses.fields(ManagedLedgerConfig)}
    assert {setting.field for setting in SETTINGS} == names
    numbers = {item.name for item in dataclasses.fields(ManagedLedgerConfig) if type(item.default) in (int, float)}
    assert set(RANGES) == numbers


def test_settings_are_read_under_pulsar_s_names_and_units():
    config = config_from_settings(
        {
            "managedLedgerDefaultEnsembleSize": "3",
            "managedLedgerDefaultWriteQuorum": " 3 ",
            "managedLedgerMinLedgerRolloverTimeMinutes": "1",
            "managedLedgerDefaultMarkDeleteRateLimit": "0.5",
            "managedLedgerDigestType": "MAC",
            "managedLedgerPassword": "secret",
            "defaultRetentionTimeInMinutes": "-1",
            "defaultRetentionSizeInMB": "-1",
            "autoSkipNonRecoverableData": "true",
            "someOtherSetting": "whatever",
        }
    )
    assert config == ManagedLedgerConfig(
        ensemble_size=3,
        write_quorum_size=3,
        minimum_rollover_time_ms=60_000,
        throttle_mark_delete=0.5,
        digest_type=DigestType.HMAC,
        password=b"secret",
        retention_time_ms=-1,
        retention_size_in_mb=-1,
        auto_skip_non_recoverable_data=True,
    )


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("managedLedgerDefaultEnsembleSize", "three", "a number"),
        ("managedLedgerDigestType", "SHA1", "CRC32 or MAC or CRC32C or DUMMY"),
        ("autoSkipNonRecoverableData", "yes", "true or false"),
    ],
)
def test_an_unreadable_text_is_refused_by_name(key, text, wanted):
    with pytest.raises(InvalidConfiguration, match=f"{key} is {text!r}: {wanted} is needed"):
        config_from_settings({key: text})


def test_every_field_has_an_effect_somewhere():
    sources = [
        path.read_text() for path in (Path(__file__).parents[3] / "mledger").rglob("*.py") if path.stem != "config"
    ]
    read = {word for source in sources for word in re.findall(r"config\.(\w+)", source)}
    derived = {"max_size_per_ledger_mb": "max_size_per_ledger", "retention_size_in_mb": "retention_size"}
    fields = [item.name for item in dataclasses.fields(ManagedLedgerConfig)]
    assert [name for name in fields if not {name, derived.get(name)} & read] == []


@pytest.mark.parametrize(("time_ms", "size_mb"), [(60_000, 0), (-1, 0), (0, 5), (0, -1)])
def test_retention_with_one_limit_of_zero_is_refused_with_what_to_do(time_ms, size_mb):
    with pytest.raises(InvalidConfiguration, match=r"set the (time|size) to -1 for no limit"):
        ManagedLedgerConfig(retention_time_ms=time_ms, retention_size_in_mb=size_mb)


@pytest.mark.parametrize(("memory_mb", "cache_mb"), [(128, 16), (256, 32), (512, 64), (1024, 64), (64 * 1024, 3276)])
def test_the_cache_takes_little_of_little_memory(memory_mb, cache_mb):
    assert plan_cache_mb(memory_mb << 20) == cache_mb

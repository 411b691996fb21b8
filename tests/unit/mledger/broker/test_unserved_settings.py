"""Settings that ask of a broker what it does not do are named in its log."""

from types import SimpleNamespace

import pytest

from mledger.broker.process import main
from mledger.broker.process.options import parse_broker_options
from mledger.broker.unserved_settings import LIMITS, NAMES, SWITCHES, plan_unserved
from mledger.known_settings import is_known
from mledger.metastore.runtime.settings import read_settings


def test_what_asks_for_nothing_is_not_named():
    given = [f"{key}={text}" for key in LIMITS for text in ("-1", "", "0")]
    given += [f"{key}=false" for key in SWITCHES] + [f"{key}=" for key in NAMES]
    assert plan_unserved(read_settings(None, given)) == ()


@pytest.mark.parametrize(
    "setting", ["maxNumPartitionsPerPartitionedTopic=3", "transactionCoordinatorEnabled=True", "entryFilterNames=jms"]
)
def test_what_asks_for_something_is_named(setting):
    assert plan_unserved(read_settings(None, [setting])) == (setting.partition("=")[0],)


def test_all_of_them_are_pulsars_settings():
    assert [key for key in (*LIMITS, *SWITCHES, *NAMES) if not is_known(key)] == []


def test_a_broker_warns_of_them(monkeypatch):
    warned = []
    quiet = SimpleNamespace(warning=lambda event, **fields: warned.append((event, fields)), debug=lambda *_, **__: None)
    monkeypatch.setattr(main, "log", quiet)
    given = ["--set", "maxTenants=3", "--set", "haProxyProtocolEnabled=false"]
    main.report_settings(parse_broker_options(["--metadata", "memory:", *given]))
    assert warned == [("settings_not_honoured", {"keys": ("maxTenants",)})]

"""`docs/reference/configuration.md` names every key that has a meaning, with the default in the code."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

from mledger import settings as owner_settings
from mledger.bookie.server.process import options
from mledger.bookie.server.process import settings as bookie_settings
from mledger.bookie.server.process.settings import KNOWN_KEYS
from mledger.config import SETTINGS
from mledger.known_settings import is_known

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "reference/configuration.md").read_text()
NAMED = set(re.findall(r"`([a-z][A-Za-z]+)(?:=[a-z]+)?`", TEXT))


def quoted(*modules) -> set[str]:
    """Quoted words in the source of modules, which include the keys."""
    return {word for module in modules for word in re.findall(r'"([a-z][A-Za-z]+)"', inspect.getsource(module))}


def test_every_key_of_a_bookie_is_documented():
    assert (quoted(options, bookie_settings) & KNOWN_KEYS) - NAMED == set()


def test_every_key_of_an_owner_is_documented():
    used = {setting.key for setting in SETTINGS} | {word for word in quoted(owner_settings) if is_known(word)}
    assert {key for key in used if not key.endswith("InZooKeeper")} - NAMED == set()


@pytest.fixture(scope="module")
def tables():
    """`tools/settings_tables.py`, which writes the defaults."""
    spec = importlib.util.spec_from_file_location("settings_tables", ROOT / "tools/settings_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_default_matches_the_code(tables):
    assert tables.with_defaults(TEXT) == TEXT, "stale: run tools/settings_tables.py"


@pytest.mark.parametrize("key", ["gcWaitTime", "managedLedgerMaxEntriesPerLedger"])
def test_a_default_that_differs_from_the_code_is_corrected(tables, key):
    stale = re.sub(rf"^(\| `{key}` .*\|) \d+ \|$", r"\1 12345 |", TEXT, flags=re.MULTILINE)
    assert stale != TEXT
    assert tables.with_defaults(stale) == TEXT


def test_a_default_whose_key_has_no_row_is_an_error(tables):
    with pytest.raises(ValueError, match="no row for gcWaitTime"):
        tables.with_defaults(re.sub(r"^\| `gcWaitTime`.*\n", "", TEXT, flags=re.MULTILINE))

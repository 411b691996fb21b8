"""`docs/reference/configuration.md` names every key that means something."""

import inspect
import re
from pathlib import Path

from mledger import settings as owner_settings
from mledger.bookie.server.process import options
from mledger.bookie.server.process import settings as bookie_settings
from mledger.bookie.server.process.settings import KNOWN_KEYS
from mledger.config import SETTINGS
from mledger.known_settings import is_known

TEXT = (Path(__file__).parents[3] / "docs" / "reference/configuration.md").read_text()
NAMED = set(re.findall(r"`([a-z][A-Za-z]+)(?:=[a-z]+)?`", TEXT))


def quoted(*modules) -> set[str]:
    """Words in quotes in the source of modules: keys among them."""
    return {word for module in modules for word in re.findall(r'"([a-z][A-Za-z]+)"', inspect.getsource(module))}


def test_every_key_of_a_bookie_is_there():
    assert (quoted(options, bookie_settings) & KNOWN_KEYS) - NAMED == set()


def test_every_key_of_an_owner_is_there():
    used = {setting.key for setting in SETTINGS} | {word for word in quoted(owner_settings) if is_known(word)}
    assert {key for key in used if not key.endswith("InZooKeeper")} - NAMED == set()

"""The file of contexts: clusters by name, written whole, refused if it is damaged."""

import stat
from pathlib import Path

import pytest

from mledger.cli.shared.context_file import ContextError, Contexts, path_of_contexts, read_contexts, write_contexts

HOSTILE = 'zk://h:1/a"b\\c\n[contexts.x]é'


def test_a_missing_file_holds_no_context(tmp_path: Path) -> None:
    assert read_contexts(tmp_path / "contexts.toml") == Contexts()


def test_a_home_that_is_no_directory_holds_no_context() -> None:
    assert read_contexts(Path("/dev/null/.config/mledger/contexts.toml")) == Contexts()


@pytest.mark.parametrize("name", ["prod", "a.b", "with space", 'q"uote', "é", "current"])
def test_names_and_urls_are_read_back_as_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "deeper" / "contexts.toml"
    contexts = Contexts().added("first", "zk://a:1").added(name, HOSTILE).used(name)
    write_contexts(path, contexts)
    assert read_contexts(path) == contexts


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    write_contexts(path, Contexts().added("a", "zk://a:1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["contexts.toml"]


def test_the_first_context_becomes_the_current_one() -> None:
    contexts = Contexts().added("a", "zk://a:1").added("b", "zk://b:1")
    assert contexts.current == "a"
    assert contexts.removed("a").current is None
    assert contexts.removed("b").current == "a"


@pytest.mark.parametrize("name", ["", " a", "a\n", "\x1b[1m"])
def test_a_name_that_cannot_be_typed_is_refused(name: str) -> None:
    with pytest.raises(ContextError, match="is not a valid name of a context"):
        Contexts().added(name, "zk://a:1")


def test_the_error_for_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ContextError, match="no context 'c': there are a, b"):
        Contexts({"b": "zk://b:1", "a": "zk://a:1"}).used("c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = ", "is not TOML"),
        ("current = 3", "`current` must be a name"),
        ("contexts = 3", "`contexts` must have one table per name"),
        ("[contexts.a]\nurl = 'zk://a'", "the context 'a' has no metadata URL"),
        ("[contexts]\na = 'zk://a'", "the context 'a' has no metadata URL"),
        ("current = 'b'\n[contexts.a]\nmetadata = 'zk://a:1'", "the current context 'b' is not among its contexts"),
    ],
)
def test_a_damaged_file_is_refused_with_its_path(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text(text)
    with pytest.raises(ContextError, match=said) as refused:
        read_contexts(path)
    assert str(path) in refused.value.message


def test_the_environment_names_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLEDGER_CONTEXTS", str(tmp_path / "mine.toml"))
    assert path_of_contexts() == tmp_path / "mine.toml"
    monkeypatch.delenv("MLEDGER_CONTEXTS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert path_of_contexts().name == "contexts.toml"

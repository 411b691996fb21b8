"""Where Debian's Python cannot be had, the reason is told and nothing is left."""

import pytest

from tests.support.environments import debian_python, interpreters


def test_missing_tools_are_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian_python.NotToBeHad, match=r"needs apt-get, dpkg-deb$"):
        debian_python.debian_python(tmp_path / "python")
    assert not (tmp_path / "python").exists()


def test_a_mirror_out_of_reach_leaves_nothing_but_a_lock(programs, tmp_path) -> None:
    programs(
        "apt-get", "[ $1 = indextargets ] && echo http://mirror.invalid/debian && exit; echo E: no route >&2; exit 100"
    )
    with pytest.raises(debian_python.NotToBeHad, match=r"apt-get: E: no route$"):
        debian_python.debian_python(tmp_path / "python")
    assert [path.name for path in (tmp_path / "python").iterdir()] == ["lock"]


def test_a_machine_without_a_mirror_of_debian_is_told(programs, tmp_path) -> None:
    programs("apt-get", "echo http://archive.ubuntu.com/ubuntu")
    with pytest.raises(debian_python.NotToBeHad, match="no mirror of Debian"):
        debian_python.debian_python(tmp_path / "python")


def test_what_an_earlier_run_made_is_used_without_apt(programs, tmp_path) -> None:
    programs("apt-get", "exit 1")
    made = tmp_path / "python" / "tree"
    made.mkdir(parents=True)
    assert debian_python.debian_python(tmp_path / "python") == f"{made}/usr/bin/python3.14"


def test_the_reason_is_that_of_a_missing_interpreter(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(interpreters, "_candidates", lambda version: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        interpreters.NoInterpreter, match=r"no python3\.14 on PATH, none of pyenv; .* apt-get, dpkg-deb$"
    ):
        interpreters.find_interpreter("3.14")
    with pytest.raises(interpreters.NoInterpreter, match=r"no python3\.12 on PATH, none of pyenv$"):
        interpreters.find_interpreter("3.12")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A function that puts a program first on PATH; Debian's keys and dpkg-deb seem to be here."""
    directory = tmp_path / "bin"
    directory.mkdir()

    def put(name: str, script: str) -> None:
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)

    put("dpkg-deb", "exit 1")
    (tmp_path / "keys").touch()
    monkeypatch.setattr(debian_python, "KEYS", tmp_path / "keys")
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return put

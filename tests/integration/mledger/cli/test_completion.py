"""Shell completion in a real bash, with names of a real cluster: quick, and silent if the cluster is down."""

import os
import pty
import select
import subprocess
import time

import click
import pytest

from mledger.cli.main import command as mledger_command
from mledger.cli.shared.names import PATIENCE_S
from pytest_mledger.clusters.cluster import RunningCluster
from tests.integration.mledger.cli.test_cli_documentation import EVERY
from tests.support.aio import HANG_S
from tests.support.cli import mledger, ok
from tests.support.commands.forked_commands import PATIENCE_VARIABLE, forked_commands
from tests.support.ports import environment_of_commands

ORDERS = "persistent://public/default/orders"
NOWHERE = "zk://127.0.0.1:1"


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """The URL of a cluster with three topics, one of them partitioned, and cursors on one."""
    with RunningCluster.start(tmp_path_factory.mktemp("cluster"), bookies=2) as cluster:
        _fill(cluster.url)
        yield cluster.url


def _fill(url: str) -> None:
    ok("topics", "create", ORDERS, url=url)
    ok("topics", "create", "persistent://public/default/open air~", url=url)
    ok("topics", "create", "persistent://public/default/parts", "--partitions", 2, url=url)
    for cursor in ("billing", "audit", "a:b"):
        ok("cursors", "create", ORDERS, cursor, url=url)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A directory for PATH with an `mledger` that starts at once."""
    with forked_commands(tmp_path_factory.mktemp("programs")) as directory:
        yield directory


@pytest.fixture
def complete(programs, named, tmp_path):
    """What bash offers for a line with the cursor at its end, by bash's own words."""

    def ask(line: str, url: str | None = named, patience: float = HANG_S) -> list[str]:
        script = f"""
            source <(mledger completion bash)
            COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:' COMP_LINE={line!r} COMP_POINT={len(line)}
            _mledger_completion mledger
            ((${{#COMPREPLY[@]}})) && printf '%s\\n' "${{COMPREPLY[@]}}"
            exit 0
        """
        environment = environment_of_commands() | {PATIENCE_VARIABLE: str(patience)}
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        if url is not None:
            environment["MLEDGER_METADATA"] = url
        command = ["bash", "--norc", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout.splitlines()

    return ask


def test_nouns_commands_options_and_choices_are_completed(complete) -> None:
    assert complete("mledger to") == ["topics"]
    assert {"create", "describe", "list"} <= set(complete("mledger topics "))
    assert complete("mledger topics create --part") == ["--partitions"]
    assert complete("mledger topics list --output ") == ["table", "json", "ndjson", "csv", "yaml"]


def test_topics_are_completed_after_the_last_colon(complete) -> None:
    assert complete("mledger topics describe persistent://public/default/ord") == ["//public/default/orders"]
    assert complete("mledger topics describe persistent://public/default/pa") == [
        "//public/default/parts",
        "//public/default/parts-partition-0",
        "//public/default/parts-partition-1",
    ]


def test_topics_are_completed_by_their_short_names(complete) -> None:
    assert complete("mledger topics describe ord") == ["orders"]
    assert complete("mledger topics describe public/default/or") == ["public/default/orders"]


def test_a_name_is_quoted_if_the_shell_needs_it(complete) -> None:
    assert complete("mledger topics describe op") == ["open\\ air~"]


def test_cursors_are_those_of_the_topic_before(complete) -> None:
    assert complete(f"mledger cursors describe {ORDERS} ") == ["a:b", "audit", "billing"]
    assert complete("mledger cursors delete orders b") == ["billing"]
    assert complete("mledger cursors delete orders a:") == ["b"]
    assert complete("mledger cursors delete unknown ") == []


def test_paths_of_nodes_are_completed_level_by_level(complete) -> None:
    assert complete("mledger metadata get /managed-l") == ["/managed-ledgers"]
    assert complete("mledger metadata tree /managed-ledgers/") == ["/managed-ledgers/public"]


def test_the_cluster_of_the_line_s_metadata_url_is_asked(complete, named) -> None:
    assert complete(f"mledger --metadata {named} topics describe ord", url=None) == ["orders"]
    assert complete(f"mledger topics describe --metadata {named} ord", url=NOWHERE) == ["orders"]


@pytest.mark.parametrize("url", [None, NOWHERE, "nonsense", "rocksdb:/nowhere"])
def test_names_are_silently_left_out_if_the_cluster_does_not_answer(complete, url) -> None:
    assert complete("mledger topics describe ord", url=url, patience=PATIENCE_S) == []
    assert "describe" in complete("mledger topics d", url=url)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell) -> None:
    said = ok("completion", shell).out
    assert f"{shell}_complete" in said
    assert "mledger" in said


def test_an_unknown_shell_is_a_usage_error() -> None:
    assert mledger("completion", "csh").code == 2


def arguments_of(found: click.Command) -> set[str | None]:
    return {parameter.name for parameter in found.params if isinstance(parameter, click.Argument)}


@pytest.mark.parametrize(("path", "found"), [each for each in EVERY if "topic" in arguments_of(each.values[1])])
def test_every_command_on_a_topic_completes_it(path, found, named, monkeypatch) -> None:
    monkeypatch.setenv("MLEDGER_METADATA", named)
    monkeypatch.setattr("mledger.cli.shared.names.PATIENCE_S", HANG_S)
    context = click.Context(mledger_command)
    (topic,) = (each for each in found.params if each.name == "topic")
    assert [item.value for item in topic.shell_complete(context, "ord")] == ["orders"]
    for cursor in (each for each in found.params if each.name == "cursor"):
        context.params["topic"] = "orders"
        assert [item.value for item in cursor.shell_complete(context, "b")] == ["billing"]


def test_a_person_at_a_terminal_presses_tab(programs, named, tmp_path) -> None:
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "MLEDGER_METADATA": named, "PS1": "", "TERM": "dumb"}
    environment |= {PATIENCE_VARIABLE: str(HANG_S)}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execvpe("bash", ["bash", "--norc", "-i"], environment)
    try:
        os.write(terminal, b"source <(mledger completion bash); echo read''y\n")
        read_until(terminal, b"ready")
        os.write(terminal, b"mledger cursors describe persistent://public/default/ord\tbil\t")
        os.write(terminal, b"\nexit\n")
        said = read_until(terminal, b"rules")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert b"default/orders billing" in said
    assert b"mark delete" in said or b"cursor ledger" in said


def read_until(terminal: int, wanted: bytes) -> bytes:
    """What the terminal shows, up to the text that is waited for."""
    said, until = b"", time.monotonic() + HANG_S
    while wanted not in said:
        ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
        assert ready, said
        said += os.read(terminal, 65536)
    return said

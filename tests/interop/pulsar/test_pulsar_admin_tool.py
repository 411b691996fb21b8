"""The original pulsar-admin, on Pulsar's broker and on ours: each command prints the same and succeeds on both."""

import json
import re
import shlex
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.interop.pulsar.compared_brokers import ComparedBroker, of_pulsar, own
from tests.interop.pulsar.pulsar_admin_output import without_chance
from tests.support.java.pulsar_admin import ADMIN_PROJECT, PulsarAdmin, Said, build

__all__ = ["of_pulsar", "own"]

pytestmark = pytest.mark.interop

COMMANDS = ADMIN_PROJECT / "commands"
SCRIPTS = ("cluster", "namespaces", "topics", "topic_policies", "schemas")
GROUPS = ("clusters", "brokers", "tenants", "namespaces", "topics", "topicPolicies", "schemas", "bookies")
OWN_WORDS = "~ "
UNSERVED = re.compile(r"this broker does not serve [A-Z]+ /admin/v2/\S+\n")
NOT_RUN = {
    "brokers shutdown": "it ends the broker",
    "brokers leader-broker": "brokers of ours have none",
    "namespaces get-anti-affinity-namespaces": "the tool asks for a path that no broker has",
    "topics create-shadow-topic": "ours refuses it once it knows the source, which has tests of its own",
    "schemas extract": "it reads a jar of classes",
}
FIELD = {"name": "a", "type": "string"}
SCHEMAS = {
    "first": [FIELD],
    "compatible": [FIELD, {"name": "b", "type": ["null", "int"], "default": None}],
    "incompatible": [{"name": "c", "type": "int"}],
}


@pytest.fixture(scope="module")
def tool(broker_class_path, tmp_path_factory):
    """The process that runs commands."""
    tool = PulsarAdmin(build(), tmp_path_factory.mktemp("pulsar-admin"))
    yield tool
    tool.close()


@pytest.fixture(scope="module")
def schemas(tmp_path_factory) -> Path:
    """The files of schemas that commands upload."""
    directory = tmp_path_factory.mktemp("schemas")
    for name, fields in SCHEMAS.items():
        schema = json.dumps({"type": "record", "name": "R", "fields": fields})
        (directory / f"{name}.json").write_text(
            json.dumps({"type": "AVRO", "schema": schema, "properties": {"k": "v"}})
        )
    (directory / "broken.json").write_text(json.dumps({"type": "AVRO", "schema": "nonsense", "properties": {}}))
    return directory


def lines_of(script: str) -> list[str]:
    """The commands of a script."""
    return [line for line in (COMMANDS / f"{script}.txt").read_text().splitlines() if line and line[0] != "#"]


def on(tool: PulsarAdmin, schemas: Path) -> Callable[[ComparedBroker, str], Said]:
    """Runs a line at a broker."""

    def run(side: ComparedBroker, line: str) -> Said:
        line = line.replace("{ledger}", str(side.ledger)).replace("{schemas}", str(schemas))
        return tool.run(f"http://127.0.0.1:{side.port}", *shlex.split(line))

    return run


def told(different: list[tuple[str, Said, Said]]) -> str:
    """The commands that printed something else on our broker ("+") than on Pulsar's ("-")."""
    lines = []
    for command, theirs, ours in different:
        lines.append(f"{command}: success {theirs.success} and {ours.success}")
        for printed, by_ours in ((theirs.out, ours.out), (theirs.err, ours.err)):
            lines += unified_diff(printed.splitlines(), by_ours.splitlines(), "Pulsar's", "ours", lineterm="", n=2)
    return "\n".join(lines)


@pytest.mark.parametrize("script", SCRIPTS)
def test_commands_print_the_same_on_both_brokers(script, tool, of_pulsar, own, schemas):
    run, different = on(tool, schemas), []
    for line in lines_of(script):
        if line.startswith("send "):
            _, topic, messages = line.split()
            for side in (of_pulsar, own):
                side.send(topic, int(messages))
            continue
        command = line.removeprefix(OWN_WORDS)
        theirs, ours = (run(side, command) for side in (of_pulsar, own))
        same = theirs.success == ours.success
        if not line.startswith(OWN_WORDS):
            same = same and without_chance(theirs.out) == without_chance(ours.out)
            same = same and without_chance(theirs.err) == without_chance(ours.err)
        if not same:
            different.append((command, theirs, ours))
    assert not different, told(different)


def test_what_our_broker_does_not_serve_it_refuses_by_name(tool, own, schemas):
    run = on(tool, schemas)
    said = {line: run(own, line) for line in lines_of("unserved")}
    assert not {line: each for line, each in said.items() if each.success or not UNSERVED.match(each.err)}


def test_every_command_of_the_tool_about_brokers_and_topics_is_run(tool):
    known = set()
    for group in GROUPS:
        shown = tool.run("http://127.0.0.1:1", group)
        known |= {f"{group} {name}" for name in re.findall(r"^  ([a-z][a-z-]+)", shown.out + shown.err, re.MULTILINE)}
    lines = [line.removeprefix(OWN_WORDS) for script in (*SCRIPTS, "unserved") for line in lines_of(script)]
    ran = {" ".join(line.split()[:2]) for line in lines}
    assert known - ran == NOT_RUN.keys()
    assert len(known) > 300

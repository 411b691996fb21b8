"""A cluster in containers: started by the compose files and by testcontainers, killed and started again."""

import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import mledger
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import StoreUnavailable
from tests.containers.conftest import BOOKIES, ZOOKEEPERS, wait_until
from tests.support.aio import HANG_S, run
from tests.support.cli import answer
from tests.support.commands.transcripts import ShownCommand, check, commands_of, run_in_shell
from tests.support.environments.containers import IMAGE, ROOT
from tests.support.environments.containers import run as run_command
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(1800)]

IN_CONTAINERS = {
    "mledger up": "docker compose up --detach --wait",
    "kill -9": "docker compose kill bookie-2",
    "export MLEDGER_METADATA": "",
    "mledger snapshot": "",  # needs what is not in the image
    "mledger down": "",
}
"""What containers use in place of the first words of the tour's commands."""
CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3, write_quorum_size=3, ack_quorum_size=2, retention_time_ms=-1, retention_size_in_mb=-1
)


def with_cluster(cluster, work):
    async def main():
        async with mledger.open_cluster(cluster.url, config=CONFIG) as opened:
            return await work(opened)

    return run(main())


async def write(topic, payloads):
    return [position for where in await topic.append(payloads) for position in where.positions()]


def documented() -> list[ShownCommand]:
    """The way of docs/how-to/containers.md to start a cluster, and then the tour in it."""
    here = commands_of((ROOT / "docs" / "how-to/containers.md").read_text())
    assert here.pop().text == "docker compose down --volumes"
    for command in commands_of((ROOT / "docs" / "tutorials/tour.md").read_text()):
        instead = next((text for begin, text in IN_CONTAINERS.items() if command.text.startswith(begin)), None)
        if instead is None:
            here.append(command)
        elif instead:
            here.append(replace(command, text=instead, shown=()))
    return here


def test_compose_up_the_tour_and_down_work_as_documented(project, tmp_path):
    commands = documented()
    program, *words = project.compose
    environment = project.environment | {
        "COMPOSE": " ".join([shutil.which(program), *words]),
        "DOCKER": shutil.which("docker"),
        "SERVERS": str(ZOOKEEPERS + BOOKIES),
    }
    printed = run_in_shell(commands, tmp_path, (ROOT / "tests" / "containers" / "programs",), environment, 2 * HANG_S)
    for index, command in enumerate(commands):
        check(command, index, printed)
    project("restart")
    wait_until(lambda: all_healthy(project), "the cluster's health after a restart")
    wait_until(lambda: bookie_states(project) == ["writable"] * BOOKIES, "the bookies' registration after a restart")
    cursors = json.loads(project.mledger("cursors", "list", "orders", "--output", "json"))
    assert [(each["cursor"], each["backlog"]) for each in cursors] == [("billing", 6000), ("shipping", 6000)]
    project("down", "--volumes")
    assert project.states() == {}


def bookie_states(project):
    return [each["state"] for each in json.loads(project.mledger("bookies", "list", "--output", "json"))]


def all_healthy(project):
    states = project.states()
    return len(states) == ZOOKEEPERS + BOOKIES and all("(healthy)" in state for state in states.values())


def test_the_image_runs_as_an_ordinary_user(images):
    assert run_command("docker", "run", "--rm", "--network", "host", "--entrypoint", "id", IMAGE, "-u") == "1000\n"


def test_the_image_contains_nothing_that_is_only_for_installing(images):
    command = ("docker", "run", "--rm", "--network", "host", "--entrypoint", "sh", IMAGE, "-c")
    assert run_command(*command, "command -v pip gcc javac; true") == ""


def test_a_topic_keeps_working_while_a_bookie_container_is_killed_and_started_again(cluster):
    topic = "persistent://public/default/bookie-killed"

    async def work(opened):
        ledger = await opened.create_topic(topic)
        cursor = await ledger.open_cursor("billing")
        positions = await write(ledger, [b"before %d" % number for number in range(500)])
        first = (await LedgerStoreReader(opened.metadata).read(ledger.ledgers[-1].ledger_id))[0].ensemble[0]
        cluster.kill(cluster.bookies[first])
        positions += await write(ledger, [b"after %d" % number for number in range(500)])
        await cursor.acknowledge(positions[:300] + positions[700:])
        cluster.start(cluster.bookies[first])
        entries = await cursor.read(1000)
        await ledger.close()
        return [entry.payload for entry in entries], cursor.backlog

    payloads, backlog = with_cluster(cluster, work)
    assert backlog == 400
    assert payloads == [b"before %d" % n for n in range(300, 500)] + [b"after %d" % n for n in range(200)]


def test_an_owner_continues_when_the_zookeeper_leader_is_killed(cluster):
    async def work(opened):
        ledger = await opened.create_topic("persistent://public/default/leader-killed")
        await write(ledger, [b"before"])
        leader = cluster.leader()
        cluster.kill(leader)
        await write(ledger, [b"after"])
        while True:
            try:
                await ledger.roll_over()
                break
            except StoreUnavailable:  # an election may take longer than the owner waits
                continue
        await write(ledger, [b"in a new ledger"])
        cluster.start(leader)
        await ledger.close()
        return ledger.number_of_entries

    assert with_cluster(cluster, work) == 3


def test_every_cursor_is_recovered_after_all_containers_were_killed(cluster):
    topic = "persistent://public/default/all-killed"

    async def crash(opened):
        ledger = await opened.create_topic(topic)
        cursors = [await ledger.open_cursor(name) for name in ("cumulative", "holes")]
        positions = await write(ledger, [b"entry %d" % number for number in range(200)])
        await cursors[0].acknowledge_cumulative(positions[49])
        await cursors[1].acknowledge(positions[10:20:2])
        for container in (*cluster.bookies.values(), *cluster.zookeepers):
            cluster.kill(container)
        await ledger.abandon()
        cluster.start(*cluster.zookeepers, *cluster.bookies.values())

    with_cluster(cluster, crash)
    done = json.loads(cluster.mledger("cursors", "recover", topic, "--apply", "--take-over", "--output", "json"))[
        "done"
    ]
    assert {each["cursor"]: (each["backlog"], each["holes"]) for each in done} == {
        "cumulative": (150, 0),
        "holes": (195, 5),
    }
    assert "entry 199" in cluster.mledger("topics", "read", topic)


def test_spark_exports_the_cluster_by_spark_submit(cluster, tmp_path):
    topic = "persistent://public/default/exported"

    async def work(opened):
        ledger = await opened.create_topic(topic)
        cursor = await ledger.open_cursor("billing")
        positions = await write(ledger, [b"entry %d" % number for number in range(100)])
        await cursor.acknowledge(positions[10:20:2])
        await ledger.roll_over()
        await ledger.close()

    with_cluster(cluster, work)
    spark_submit = Path(importlib.util.find_spec("pyspark").origin).parent / "bin" / "spark-submit"
    local = ("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.ui.enabled=false")
    run_command(
        *(spark_submit, *(word for setting in local for word in ("--conf", setting))),
        *(
            ROOT / "mledger" / "cli" / "snapshots" / "spark_submit.py",
            tmp_path,
            "--metadata",
            cluster.url,
            "-D",
            "partitions=1",
        ),
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
    )
    assert all_rows(tmp_path) == tables.read({"metadata": cluster.url})
    (found,) = [row for row in answer("snapshot", "ask", tmp_path, "backlog") if row["topic"] == topic]
    assert (found["cursor"], found["entries"], found["state"]) == ("billing", 95, "znode")

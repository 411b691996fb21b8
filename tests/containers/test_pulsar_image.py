"""The image `mledger-pulsar`, started as other projects start `apachepulsar/pulsar`."""

import json
import subprocess
import tempfile
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from testcontainers.core.container import DockerContainer

from tests.clients.builds import missing_tools
from tests.containers.builds import HERE, go_command, go_suite, java_command, java_suite
from tests.containers.conftest import wait_until
from tests.support.aio import HANG_S
from tests.support.commands.documents import blocks_of
from tests.support.environments.containers import ENGINE, run
from tests.support.ports import free_late_port

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(1800)]

IMAGE = "mledger-pulsar"
TYPED = (
    "/pulsar/bin/apply-config-from-env.py /pulsar/conf/standalone.conf"
    " && bin/pulsar standalone --no-functions-worker -nss"
)
"""What testcontainers' modules run in `/bin/bash -c`."""
TYPED_READ_ONLY = (
    "cp conf/standalone.conf /tmp && bin/apply-config-from-env.py /tmp/standalone.conf"
    " && exec bin/pulsar standalone --config /tmp/standalone.conf"
)
AUTHENTICATED = "\n".join(
    (
        "bin/pulsar tokens create-secret-key --output secret.key",
        "export brokerClientAuthenticationParameters=token:"
        "$(bin/pulsar tokens create --secret-key $PULSAR_PREFIX_tokenSecretKey --subject $superUserRoles)",
        "export CLIENT_PREFIX_authParams=$brokerClientAuthenticationParameters",
        "bin/apply-config-from-env.py conf/standalone.conf",
        "bin/apply-config-from-env-with-prefix.py CLIENT_PREFIX_ conf/client.conf",
        "bin/pulsar standalone --no-functions-worker --no-stream-storage",
    )
)
"""What testcontainers for .NET runs with authentication, and the variables that it sets."""
TOKEN_CLIENT = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
AUTHENTICATION = {
    "authenticateOriginalAuthData": "false",
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "brokerClientAuthenticationPlugin": TOKEN_CLIENT,
    "CLIENT_PREFIX_authPlugin": TOKEN_CLIENT,
    "PULSAR_PREFIX_authenticationRefreshCheckSeconds": "5",
    "PULSAR_PREFIX_tokenSecretKey": "file:///pulsar/secret.key",
    "superUserRoles": "test-user",
}
TOKEN = ("bin/pulsar", "tokens", "create", "--secret-key", "/pulsar/secret.key", "--subject", "test-user")
MESSAGES = 10
MOST_COMPRESSED = 150 << 20


@pytest.fixture(scope="session")
def engine_with_ports(images: None) -> Iterator[Path]:
    """The directory of an engine that maps ports, in a network namespace of its own, with the image."""
    directory = Path(tempfile.mkdtemp(prefix="mledger-ports-"))
    try:
        address = run(ENGINE, "up", directory, "ports").strip()
        with subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE) as saved:
            subprocess.run(
                ["docker", "--host", address, "load"],
                stdin=saved.stdout,
                check=True,
                capture_output=True,
                timeout=HANG_S,
            )
        yield directory
    finally:
        run(ENGINE, "down", directory)


def run_beside(program: list[str], engine: Path) -> str:
    """What a program prints that starts the image by testcontainers, next to an engine."""
    environment = {
        "DOCKER_HOST": f"unix://{engine / 'docker.sock'}",
        "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",  # even where the machine looks like a container
        "TESTCONTAINERS_RYUK_DISABLED": "true",
    }
    return run(ENGINE, "run", engine, *program, **environment)


def started_by(program: list[str], engine: Path) -> dict[str, float]:
    """The figures that a program prints which takes the image's name."""
    return json.loads(run_beside([*program, IMAGE], engine).splitlines()[-1])


def get(url: str, token: str = "") -> str:
    """The body of an answer, nothing if there is none yet."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.read().decode()
    except OSError:
        return ""


@pytest.mark.clients
def test_testcontainers_for_go_starts_it(engine_with_ports):
    if missing := missing_tools("go"):
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    assert started_by(go_command(), engine_with_ports)["received"] == MESSAGES


@pytest.mark.clients
def test_testcontainers_for_java_starts_it(engine_with_ports):
    if missing := missing_tools("java"):
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    assert started_by(java_command(), engine_with_ports)["received"] == MESSAGES


@pytest.mark.parametrize(
    ("language", "file"), [("go", "go/suite/orders_test.go"), ("java", "java/src/main/java/containers/OrdersTest.java")]
)
def test_the_guide_shows_lines_of_the_suite(language, file):
    (shown,) = [block.text for block in blocks_of("how-to/move-tests.md") if block.language == language]
    assert shown.strip("\n") in (HERE / file).read_text()


@pytest.mark.clients
def test_the_suite_of_the_guide_passes_by_go_test(engine_with_ports):
    if missing := missing_tools("go"):
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    assert "--- PASS: TestAnOrderIsBilled" in run_beside(go_suite(), engine_with_ports)


@pytest.mark.clients
def test_the_suite_of_the_guide_passes_by_junit(engine_with_ports):
    if missing := missing_tools("java"):
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    assert "1 tests successful" in run_beside(java_suite(), engine_with_ports)


def test_testcontainers_for_python_starts_it_with_settings_and_finds_messages_after_a_kill(images):
    port, web = free_late_port(), free_late_port()
    container = DockerContainer(IMAGE, network_mode="host").with_command(["/bin/bash", "-c", TYPED])
    container.with_env("PULSAR_PREFIX_brokerServicePort", str(port)).with_env("webServicePort", str(web))
    container.with_env("PULSAR_PREFIX_bindAddress", "127.0.0.1")

    def ready() -> bool:
        return get(f"http://127.0.0.1:{web}/admin/v2/clusters") == '["standalone"]'

    with container:
        wait_until(ready, "the clusters' names over HTTP")
        client = pulsar.Client(f"pulsar://127.0.0.1:{port}")
        client.subscribe("orders", "billing").close()
        producer = client.create_producer("orders")
        for number in range(MESSAGES):
            producer.send(str(number).encode())
        container.get_wrapped_container().kill()
        container.get_wrapped_container().start()
        wait_until(ready, "the clusters' names over HTTP after the kill")
        consumer = client.subscribe("orders", "billing")
        found = [consumer.receive(60_000).data() for _ in range(MESSAGES)]
        client.close()
    assert found == [str(number).encode() for number in range(MESSAGES)]


@pytest.mark.parametrize(
    ("typed", "options"),
    [
        (TYPED, {"user": "1000680000", "cap_drop": ["ALL"], "mem_limit": "256m"}),
        (TYPED_READ_ONLY, {"user": "1000680000", "read_only": True}),
    ],
    ids=["memory-limit", "read-only"],
)
def test_any_user_of_group_root_runs_it(images, typed, options):
    port, web = free_late_port(), free_late_port()
    container = DockerContainer(IMAGE, network_mode="host", **options).with_command(["/bin/bash", "-c", typed])
    container.with_tmpfs_mount("/tmp")
    ports = {"brokerServicePort": str(port), "webServicePort": str(web), "PULSAR_PREFIX_bindAddress": "127.0.0.1"}
    for key, value in ports.items():
        container.with_env(key, value)
    with container:
        wait_until(lambda: get(f"http://127.0.0.1:{web}/admin/v2/clusters") == '["standalone"]', "the clusters' names")
        client = pulsar.Client(f"pulsar://127.0.0.1:{port}")
        consumer = client.subscribe("orders", "billing")
        client.create_producer("orders").send(b"order")
        assert consumer.receive(60_000).data() == b"order"
        client.close()


def test_it_makes_keys_and_tokens_and_authenticates_as_testcontainers_for_net_has_it(images):
    port, web = free_late_port(), free_late_port()
    container = DockerContainer(IMAGE, network_mode="host").with_command(["/bin/bash", "-c", AUTHENTICATED])
    ports = {"brokerServicePort": str(port), "webServicePort": str(web), "PULSAR_PREFIX_bindAddress": "127.0.0.1"}
    for key, value in (AUTHENTICATION | ports).items():
        container.with_env(key, value)
    url = f"pulsar://127.0.0.1:{port}"
    with container:

        def token() -> str:
            made = container.get_wrapped_container().exec_run([*TOKEN, "--expiry-time", "31536000s"])
            return made.output.decode().strip() if made.exit_code == 0 else ""

        def ready() -> bool:
            return get(f"http://127.0.0.1:{web}/admin/v2/clusters", token()) == '["standalone"]'

        wait_until(ready, "the clusters' names over HTTP, with a token")
        assert get(f"http://127.0.0.1:{web}/admin/v2/clusters") == ""
        client = pulsar.Client(url, authentication=pulsar.AuthenticationToken(token()))
        consumer = client.subscribe("orders", "billing")
        client.create_producer("orders").send(b"order")
        assert consumer.receive(60_000).data() == b"order"
        client.close()
        nobody = pulsar.Client(url)
        with pytest.raises(pulsar.PulsarException):
            nobody.create_producer("orders")
        nobody.close()


def test_it_takes_at_most_150_mb_compressed(images):
    compressor, compressed = zlib.compressobj(1), 0
    with subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE) as saved:
        assert saved.stdout is not None
        while piece := saved.stdout.read(1 << 20):
            compressed += len(compressor.compress(piece))
    assert saved.returncode == 0
    assert compressed + len(compressor.flush()) <= MOST_COMPRESSED

"""The functions worker in a real broker, started with it, and packages uploaded through it as clients do."""

import urllib.request
from pathlib import Path

from tests.support.java.pulsar_broker import CLUSTER, AdminError, PulsarBroker
from tests.support.java.pulsar_cluster import eventually

SETTINGS = {"functionsWorkerEnabled": "true"}
"""The lines of `broker.conf` for a broker with a worker."""
BOUNDARY = "end-of-part"


def worker_arguments(directory: Path) -> tuple[str, ...]:
    """Further arguments of such a broker. Creates `directory`."""
    directory.mkdir(parents=True)
    configuration = directory / "functions_worker.yml"
    settings = {
        "pulsarFunctionsNamespace": "public/functions",
        "pulsarFunctionsCluster": CLUSTER,
        "numFunctionPackageReplicas": 3,
        "downloadDirectory": directory / "downloads",
        "connectorsDirectory": directory / "connectors",
        "functionsDirectory": directory / "functions",
        "functionMetadataTopicName": "metadata",
        "clusterCoordinationTopicName": "coordinate",
        "functionAssignmentTopicName": "assignments",
        "functionRuntimeFactoryClassName": "org.apache.pulsar.functions.runtime.thread.ThreadRuntimeFactory",
        "functionRuntimeFactoryConfigs": "{threadGroupName: functions}",
        "schedulerClassName": "org.apache.pulsar.functions.worker.scheduler.RoundRobinScheduler",
        "failureCheckFreqMs": 30_000,
        "rescheduleTimeoutMs": 60_000,
        "initialBrokerReconnectMaxRetries": 60,
        "assignmentWriteMaxRetries": 60,
        "instanceLivenessCheckFreqMs": 30_000,
        "topicCompactionFrequencySec": 1_800,
    }
    configuration.write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    return "--run-functions-worker", "--functions-worker-conf", str(configuration)


def wait_for_worker(broker: PulsarBroker) -> None:
    """Return when the worker accepts requests, some time after its broker does."""

    def serves() -> bool:
        try:
            return bool(broker.get("v2/worker/cluster/leader"))
        except (AdminError, OSError):
            return False

    eventually(serves, lambda: "the functions worker serves")


def upload(broker: PulsarBroker, path: str, package: bytes) -> None:
    """Have the worker store the package of a function."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="path"\r\n\r\n{path}\r\n'
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="data"; filename="function.jar"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    body = head.encode() + package + f"\r\n--{BOUNDARY}--\r\n".encode()
    broker.ask("POST", "v3/functions/upload", body, content_type=f"multipart/form-data; boundary={BOUNDARY}")


def download(broker: PulsarBroker, path: str) -> bytes:
    """An uploaded package."""
    url = f"http://127.0.0.1:{broker.web_port}/admin/v3/functions/download?path={path}"
    with urllib.request.urlopen(url) as response:
        return response.read()

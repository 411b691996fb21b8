"""Archives of Java's classes are made once, and missed by nobody."""

from mledger.metastore.zookeeper.launcher import ZooKeeperRuntime
from tests.support.java import class_archives


def test_an_archive_is_made_once(tmp_path):
    archive = tmp_path / "archives" / "some.jsa"
    made = []

    def work(to, directory):
        made.append(directory)
        to.write_bytes(b"classes")

    assert [class_archives._made(archive, work), class_archives._made(archive, work)] == [archive, archive]
    assert archive.read_bytes() == b"classes"
    assert len(made) == 1
    assert not made[0].exists()


def test_a_java_that_writes_none_is_used_without(tmp_path):
    assert class_archives._made(tmp_path / "some.jsa", lambda to, directory: None) is None


def test_a_java_that_does_not_know_the_option_is_used_without(tmp_path, monkeypatch):
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho Unrecognized VM option; exit 1\n")
    old.chmod(0o755)
    runtime = ZooKeeperRuntime(old, (), "an old Java")
    monkeypatch.setattr(class_archives, "find_zookeeper", lambda: runtime)
    monkeypatch.setattr(class_archives, "TARGET", tmp_path)
    assert class_archives._zookeepers() is None


def test_another_class_path_has_another_archive(tmp_path):
    java, jar = tmp_path / "java", tmp_path / "some.jar"
    java.touch()
    jar.touch()
    before = class_archives._file("some", java, [jar])
    jar.write_bytes(b"another version")
    assert class_archives._file("some", java, [jar]) != before

"""The command line by which other projects start Pulsar's image."""

import os

import pytest

from mledger.metastore.runtime import packages
from mledger.standalone.directory import StandaloneDirectory
from mledger.standalone.image.pulsar_program import main, parse_standalone, plan_standalone
from mledger.standalone.options import parse_standalone_options


def planned(tmp_path, monkeypatch, *arguments, **environment):
    """The options of the standalone that is started in a directory without a configuration."""
    monkeypatch.chdir(tmp_path)
    return parse_standalone_options(plan_standalone(parse_standalone(arguments), environment))


def test_what_testcontainers_type_starts_one_bookie_with_its_data_below_the_image_directory(tmp_path, monkeypatch):
    options = planned(tmp_path, monkeypatch, "--no-functions-worker", "-nss")
    assert options.data_dir == "data/standalone"
    assert (options.bookies, options.broker_conf) == (None, None)


def test_the_file_of_settings_is_the_image_s_own_unless_another_one_is_named(tmp_path, monkeypatch):
    for name in ("conf/standalone.conf", "mine.conf", "theirs.conf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("clusterName=c\n")
    assert planned(tmp_path, monkeypatch).broker_conf == "conf/standalone.conf"
    assert planned(tmp_path, monkeypatch, PULSAR_STANDALONE_CONF="theirs.conf").broker_conf == "theirs.conf"
    assert planned(tmp_path, monkeypatch, "-c", "mine.conf", PULSAR_STANDALONE_CONF="x").broker_conf == "mine.conf"


def test_options_of_the_original_are_taken(tmp_path, monkeypatch):
    options = planned(
        tmp_path,
        monkeypatch,
        *("-nfw", "-nss", "-wd", "--num-bookies", "3", "-a", "broker.example", "--metadata-dir", "elsewhere"),
        *("--zookeeper-port", "2181", "--bookkeeper-dir", "data/bookkeeper"),
    )
    assert (options.bookies, options.data_dir) == (3, "elsewhere")
    assert options.settings == ("advertisedAddress=broker.example",)


def test_an_option_that_does_not_exist_is_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        planned(tmp_path, monkeypatch, "--no-such-option")
    assert ended.value.code == 2
    assert "--no-such-option" in capsys.readouterr().err


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The metadata of a standalone in the image's directory."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data" / "standalone" / "metadata" / "FORMAT"
    data.parent.mkdir(parents=True)
    data.write_text("")
    return data


@pytest.fixture
def starts(monkeypatch):
    """The options of each standalone that would run."""
    started = []
    monkeypatch.setattr("mledger.standalone.main.main", lambda options, *_: started.append(options) or 0)
    return started


def test_data_is_wiped_before_the_start(data, starts):
    assert main(["standalone", "-wd"]) == 0
    assert not data.exists()
    assert starts == [["--data-dir", "data/standalone"]]


def test_the_data_of_a_standalone_that_runs_is_not_wiped(data, starts, capsys):
    running = StandaloneDirectory(str(data.parents[1]))
    assert main(["standalone", "--wipe-data"]) == 1
    running.close()
    assert data.exists()
    assert not starts
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"bin/pulsar standalone --wipe-data: {data.parents[1]}: process {os.getpid()} runs a standalone on this "
        "directory: stop it, or name another directory"
    )


def test_nothing_is_wiped_where_another_option_is_wrong(data, starts):
    with pytest.raises(SystemExit):
        main(["standalone", "--wipe-data", "--num-bookies", "99"])
    assert data.exists()


def test_a_command_that_is_not_in_the_image_is_refused_by_name(capsys):
    assert main(["functions-worker"]) == 2
    assert "'functions-worker' is not in this image" in capsys.readouterr().err


def test_tokens_say_which_packages_are_missing(monkeypatch, capsys):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert main(["tokens", "create-secret-key"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bin/pulsar tokens: authentication needs packages that are missing (jwt")

"""The command line by which other projects start Pulsar's image."""

import pytest

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


def test_a_command_that_is_not_in_the_image_is_refused_by_name(capsys):
    assert main(["functions-worker"]) == 2
    assert "'functions-worker' is not in this image" in capsys.readouterr().err

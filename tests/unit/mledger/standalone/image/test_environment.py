"""Settings from the environment of a container, in the files that its programs read."""

from mledger.standalone.image.environment import main, main_with_prefix, plan_file

FILE = "# ports\nbrokerServicePort=6650\nwebServicePort = 8080\n"


def test_a_prefixed_variable_sets_what_stands_in_the_file_and_adds_what_does_not():
    environment = {"PULSAR_PREFIX_brokerServicePort": "1", "PULSAR_PREFIX_brokerDeduplicationEnabled": "true"}
    text, keys = plan_file(FILE, environment)
    assert text == "# ports\nbrokerServicePort=1\nwebServicePort = 8080\nbrokerDeduplicationEnabled=true\n"
    assert keys == ["brokerDeduplicationEnabled", "brokerServicePort"]


def test_a_variable_without_the_prefix_counts_if_a_broker_knows_it_or_the_file_has_it():
    environment = {"webServicePort": "2", "authenticationEnabled": "true", "HOME": "/root", "PULSAR_MEM": "-Xmx1g"}
    text, keys = plan_file(FILE, environment)
    assert keys == ["authenticationEnabled", "webServicePort"]
    assert text.splitlines()[2:] == ["webServicePort=2", "authenticationEnabled=true"]


def test_the_prefixed_variable_wins():
    assert plan_file("", {"clusterName": "a", "PULSAR_PREFIX_clusterName": "b"})[0] == "clusterName=b\n"


def test_a_second_run_changes_nothing():
    environment = {"PULSAR_PREFIX_clusterName": "b"}
    once, _ = plan_file(FILE, environment)
    assert plan_file(once, environment)[0] == once


def test_the_values_are_written_and_only_the_keys_are_printed(tmp_path, monkeypatch, capsys):
    path = tmp_path / "standalone.conf"
    path.write_text(FILE)
    monkeypatch.setenv("PULSAR_PREFIX_tokenSecretKey", "data:;base64,c2VjcmV0")
    assert main([str(path)]) == 0
    assert "tokenSecretKey=data:;base64,c2VjcmV0" in path.read_text()
    printed = capsys.readouterr().out
    assert "tokenSecretKey" in printed
    assert "c2VjcmV0" not in printed


def test_a_file_that_is_missing_is_named(tmp_path, capsys):
    assert main([str(tmp_path / "none.conf")]) == 1
    assert f"{tmp_path / 'none.conf'}: No such file or directory" in capsys.readouterr().err


def test_with_another_prefix_only_keys_of_the_file_count_without_it():
    text = "webServiceUrl=http://localhost:8080/\n"
    environment = {"CLIENT_PREFIX_authParams": "token:t", "clusterName": "c", "webServiceUrl": "http://other/"}
    assert plan_file(text, environment, "CLIENT_PREFIX_") == (
        "webServiceUrl=http://other/\nauthParams=token:t\n",
        ["authParams", "webServiceUrl"],
    )


def test_the_program_with_a_prefix_needs_a_prefix_and_a_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "client.conf"
    path.write_text("")
    monkeypatch.setenv("CLIENT_PREFIX_authParams", "token:t")
    assert main_with_prefix(["CLIENT_PREFIX_", str(path)]) == 0
    assert path.read_text() == "authParams=token:t\n"
    assert main_with_prefix([str(path)]) == 2
    assert "usage: apply-config-from-env-with-prefix.py PREFIX FILE..." in capsys.readouterr().err

"""Where a token for brokers comes from. No error holds one."""

import pytest

from mledger.admin.broker_access import BrokerAccess, read_access
from mledger.metastore.errors import InvalidSetting


@pytest.fixture
def files(tmp_path):
    for name in ("option", "variable"):
        (tmp_path / name).write_text(f"of-{name}.a_b\n")
    return tmp_path


def test_the_option_wins_over_the_variables(files):
    environment = {"MLEDGER_TOKEN_FILE": str(files / "variable"), "MLEDGER_TOKEN": "of-environment"}
    assert read_access(str(files / "option"), None, environment).token == "of-option.a_b"
    assert read_access(None, None, environment).token == "of-variable.a_b"
    assert read_access(None, None, {"MLEDGER_TOKEN": " of-environment\n"}).token == "of-environment"
    assert read_access(None, "ca.pem", {"MLEDGER_TOKEN": "", "MLEDGER_TOKEN_FILE": ""}) == BrokerAccess("", "ca.pem")


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", b"\xff", b"a\x00b", b"a\r\nX-Header: 1"])
def test_a_file_without_a_token_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(InvalidSetting, match="--token-file") as raised:
        read_access(str(path), None, {})
    assert not content.strip() or content.decode("latin-1") not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for arguments in ((str(tmp_path / "none"), {}), (None, {"MLEDGER_TOKEN_FILE": str(tmp_path / "none")})):
        with pytest.raises(InvalidSetting, match="none cannot be read: No such file"):
            read_access(arguments[0], None, arguments[1])


def test_the_token_is_in_the_request_and_nowhere_else():
    access = BrokerAccess("secret")
    request = access.request("http://127.0.0.1/admin")
    assert request.unredirected_hdrs == {"Authorization": "Bearer secret"}
    assert not request.headers
    assert "secret" not in repr(access)


def test_authorities_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "empty").touch()
    for name in ("none", "empty"):
        with pytest.raises(InvalidSetting, match=f"--trust-certs: .*{name} cannot be read"):
            BrokerAccess("", str(tmp_path / name)).opener()

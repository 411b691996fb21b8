"""Where a configuration's secrets are: in a file, in a variable, or asked for at the terminal."""

import pytest

from mledger.metastore.errors import InvalidMetadataUrl
from mledger.metastore.zookeeper.secrets import set_prompt
from mledger.metastore.zookeeper.security import SaslLogin, parse_security, read_security

SASL = "sasl.mechanism = DIGEST-MD5\nsasl.username = me\n"


@pytest.fixture(autouse=True)
def _nobody_asked():
    yield
    set_prompt(None)


def test_a_secret_is_the_first_line_of_a_file_beside_the_configuration(tmp_path):
    (tmp_path / "password").write_text("se cret\nmore\n")
    config = tmp_path / "zk.conf"
    config.write_text(f"{SASL}sasl.password.file = password\n")
    assert read_security(str(config)).sasl == SaslLogin("DIGEST-MD5", "me", "se cret")


def test_a_secret_is_in_the_environment(monkeypatch):
    monkeypatch.setenv("ZK_DIGEST", "me:secret")
    assert parse_security("digest.env = ZK_DIGEST\ndigest = other:word").digests == ("me:secret", "other:word")


def test_a_secret_is_asked_for_once(tmp_path):
    asked = []

    def answer(what: str) -> str:
        asked.append(what)
        return "typed"

    set_prompt(answer)
    for _ in range(2):
        sasl = parse_security(f"{SASL}sasl.password.prompt = true", "zk.conf").sasl
        assert sasl is not None
        assert sasl.password == "typed"
    assert asked == ["sasl.password of zk.conf"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("digest.file = nothing-there", "line 1: digest is to be in a file that cannot be read"),
        ("digest.env = NOT_SET_HERE", "line 1: digest is to be in the environment as NOT_SET_HERE, which is not set"),
        ("digest.prompt = true", "line 1: digest is to be asked for, and nobody is there to ask"),
        (f"{SASL}sasl.password = a\nsasl.password.env = PATH", "line 4: sasl.password is there twice"),
        (f"{SASL}sasl.password.env = PATH\nsasl.password = a", "line 4: sasl.password is there twice"),
        ("acl.file = x", "'acl.file' is none of"),
    ],
)
def test_a_missing_secret_is_named_by_its_place(text, said):
    with pytest.raises(InvalidMetadataUrl, match=r"the ZooKeeper configuration zk\.conf: ") as refused:
        parse_security(text, "zk.conf")
    assert said in str(refused.value)


def test_an_empty_secret_is_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")
    config = tmp_path / "zk.conf"
    config.write_text("digest.file = empty\n")
    with pytest.raises(InvalidMetadataUrl, match="line 1: digest is empty"):
        read_security(str(config))

"""Files of htpasswd: which lines are taken, and which passwords."""

import pytest
from passlib.hash import apr_md5_crypt, md5_crypt, sha256_crypt, sha512_crypt

from mledger.broker.security import passwords
from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.passwords import decode_passwords
from mledger.metastore.errors import InvalidSetting


@pytest.mark.parametrize(
    "kind", [apr_md5_crypt, md5_crypt, sha256_crypt.using(rounds=1000), sha512_crypt.using(rounds=1000)]
)
def test_the_password_of_a_user_is_accepted(kind):
    users = decode_passwords(f"# users\n\nann:{kind.hash('pässword')}\r\nbob:{kind.hash('b')}\n".encode())
    assert users.verify("ann", "pässword") == "ann"
    assert users.verify("bob", "b") == "bob"


def test_a_hash_of_many_rounds_is_made_without_pythons_lock(monkeypatch):
    monkeypatch.setattr(passwords, "_CONTEXT", None)  # hashes in Python's own time
    for kind in (sha256_crypt, sha512_crypt):
        known = kind.using(rounds=5001).hash("pässword")
        assert passwords._matches("pässword", known)
        assert not passwords._matches("password", known)


def test_a_system_without_such_hashes_leaves_them_to_python(monkeypatch):
    for found in (None, "*0", "$6a5yPOr1w7XA"):
        monkeypatch.setattr(passwords, "system_hash", lambda *_, found=found: found)
        users = decode_passwords(f"ann:{sha512_crypt.using(rounds=1000).hash('a')}\n".encode())
        assert users.verify("ann", "a") == "ann"
        with pytest.raises(AuthenticationFailed):
            users.verify("ann", "b")


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("ann", "b"),
        ("ann", ""),
        ("ann", "a\0"),
        ("ann", "a" * 5000),
        ("", "a"),
        ("eve", "a"),
        ("ANN", "a"),
        ("# x", "a"),
        ("ann", "\udcff"),
    ],
)
@pytest.mark.parametrize("kind", [apr_md5_crypt, sha512_crypt.using(rounds=1000)])
def test_a_wrong_password_and_an_unknown_user_look_the_same(user, password, kind):
    users = decode_passwords(f"ann:{kind.hash('a')}\n".encode())
    with pytest.raises(AuthenticationFailed, match=r"^unknown user or wrong password$"):
        users.verify(user, password)


def test_a_file_without_users_lets_nobody_in():
    with pytest.raises(AuthenticationFailed):
        decode_passwords(b"\n# nobody\n").verify("ann", "")


def test_a_hash_that_would_take_minutes_is_refused_with_its_line():
    known = sha512_crypt.using(rounds=1000).hash("a").replace("rounds=1000", "rounds=999999999")
    with pytest.raises(InvalidSetting, match="line 2: a hash of 999,999,999 rounds") as raised:
        decode_passwords(f"\nann:{known}\n".encode())
    assert known not in str(raised.value)


@pytest.mark.parametrize(
    "line",
    ["ann", "ann:", ":$1$x", "ann:plain text", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "ann:$apr1$", "ann:$6$x"],
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(line):
    good = f"bob:{apr_md5_crypt.hash('b')}"
    with pytest.raises(InvalidSetting, match="basicAuthConf, line 2") as raised:
        decode_passwords(f"{good}\n{line}\n".encode())
    assert line not in str(raised.value)

"""`bin/pulsar tokens`: keys, tokens and what is said about them."""

import base64
import io
import json
import time

import pytest

from mledger.metastore.errors import InvalidSetting
from mledger.standalone.image.tokens_program import main, plan_expiry


@pytest.fixture
def tokens(capsysbinary):
    """Runs the program; what it prints, without the last line break."""

    def run(*words):
        assert main([str(word) for word in words]) == 0
        return capsysbinary.readouterr().out.removesuffix(b"\n").decode(errors="replace")

    return run


def test_a_token_of_a_secret_key_names_its_role_and_is_valid_with_that_key_only(tokens, tmp_path, capsysbinary):
    first, second = tmp_path / "first.key", tmp_path / "second.key"
    for path in (first, second):
        assert tokens("create-secret-key", "--output", path) == ""
    assert (len(first.read_bytes()), first.stat().st_mode & 0o777) == (32, 0o600)
    token = tokens("create", "--secret-key", first, "--subject", "billing")
    assert tokens("validate", "-sk", f"file://{first}", token) == "{sub=billing}"
    header, line, claims = tokens("show", token).splitlines()
    assert (json.loads(header)["alg"], line, json.loads(claims)) == ("HS256", "---", {"sub": "billing"})
    assert main(["validate", "-sk", str(second), token]) == 1
    assert b"the token's signature is not that of this broker's key" in capsysbinary.readouterr().err


def test_a_key_in_a_file_that_others_could_read_is_for_this_user_only(tokens, tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"a former key, longer than the new one will be")
    path.chmod(0o644)
    tokens("create-secret-key", "--output", path)
    assert (len(path.read_bytes()), path.stat().st_mode & 0o777) == (32, 0o600)


def test_a_token_of_a_private_key_is_valid_with_its_public_key(tokens, tmp_path):
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    tokens("create-key-pair", "-a", "ES256", "--output-private-key", private, "--output-public-key", public)
    token = tokens("create", "--private-key", private, "-s", "billing")
    assert tokens("validate", "-pk", public, token) == "{sub=billing}"


def test_a_secret_without_a_file_goes_to_stdout_in_base64_if_asked(tokens, capsysbinary):
    text = tokens("create-secret-key", "-a", "HS512", "--base64")
    assert len(base64.b64decode(text)) == 64
    assert main(["create-secret-key", "-a", "HS384"]) == 0
    assert len(capsysbinary.readouterr().out) == 48
    assert tokens("validate", "-sk", text, tokens("create", "-sk", text, "-s", "billing")) == "{sub=billing}"


def test_a_token_is_read_from_an_argument_a_file_stdin_or_the_environment(tokens, tmp_path, monkeypatch):
    token = tokens("create", "-sk", tokens("create-secret-key", "-b"), "-s", "billing")
    path = tmp_path / "token"
    path.write_text(token + "\n")
    shown = tokens("show", token)
    assert tokens("show", "--token-file", path) == shown
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    assert tokens("show", "--stdin") == shown
    monkeypatch.setenv("TOKEN", token)
    assert tokens("show") == shown


def test_an_expired_token_is_not_valid(tokens, capsysbinary):
    key = tokens("create-secret-key", "-b")
    assert "exp=" in tokens("validate", "-sk", key, tokens("create", "-sk", key, "-s", "billing", "-e", "1h"))
    assert main(["validate", "-sk", key, tokens("create", "-sk", key, "-s", "billing", "-e", "0s")]) == 1
    assert b"the token has expired" in capsysbinary.readouterr().err


@pytest.mark.parametrize(
    ("period", "seconds"), [("90s", 90), ("90", 90), ("15m", 900), ("1h", 3600), ("3d", 259_200), ("1w", 604_800)]
)
def test_an_expiry_is_relative(period, seconds):
    now_s = int(time.time())
    assert plan_expiry(period, now_s) == {"exp": now_s + seconds}


def test_no_expiry_is_never_and_a_year_has_365_days():
    assert plan_expiry(None, 0) == {}
    assert plan_expiry("10y", 0) == {"exp": 315_360_000}


@pytest.mark.parametrize("period", ["", "h", "1x", "-1h", "1.5h"])
def test_what_is_no_period_is_refused(period):
    with pytest.raises(InvalidSetting, match="write a number and a unit"):
        plan_expiry(period, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "nothing"], "the token is no JWT"),
        (["show"], "no token: name it"),
        (["show", "-f", "/none"], "/none: No such file"),
        (["create", "-s", "billing", "-sk", "/none"], "neither a file that exists nor base64"),
        (["create-secret-key", "-o", "/none/key"], "/none/key: No such file"),
    ],
)
def test_errors_say_what_is_missing(words, said, capsys, monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    assert main(words) == 1
    assert said in capsys.readouterr().err

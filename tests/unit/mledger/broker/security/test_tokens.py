"""Tokens: which signatures count, and what their claims mean."""

import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.security_settings import SecuritySettings
from mledger.broker.security.token_keys import public_keys, secret_key
from mledger.broker.security.tokens import TokenFacts, TokenVerifier, plan_token

NOW_S = 1_800_000_000
SECRET = b"s" * 64
RSA, OTHER_RSA = (rsa.generate_private_key(65537, 2048) for _ in range(2))
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
EC = {name: ec.generate_private_key(curve) for name, curve in CURVES.items()}


def der(private):
    return private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pem(private):
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_set(**private):
    """A JWKS of public keys by their ids."""
    kinds = {True: RSAAlgorithm, False: ECAlgorithm}
    keys = [
        kinds[isinstance(key, rsa.RSAPrivateKey)].to_jwk(key.public_key(), as_dict=True) | {"kid": name}
        for name, key in private.items()
    ]
    return json.dumps({"keys": keys}).encode()


def verifier(*keys, **settings):
    return TokenVerifier(SecuritySettings(**settings), keys)


def refusal(verify, token):
    """Why the token is refused; the reason does not hold it."""
    with pytest.raises(AuthenticationFailed) as raised:
        verify.verify(token, NOW_S)
    assert not token or token not in str(raised.value)
    return str(raised.value)


def signed(header, claims, key=b""):
    """A token as an attacker writes it: any header, signed with HMAC-SHA256."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims)]
    body = b".".join(parts)
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(body, key) if key else b""
    return (body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_secret_verifies_the_algorithms_that_it_is_long_enough_for(algorithm):
    token = jwt.encode({"sub": "app"}, SECRET, algorithm)
    assert verifier(secret_key(SECRET)).verify(token, NOW_S) == TokenFacts("app", None)
    short = SECRET[: int(algorithm[2:]) // 8 - 1].ljust(32, b"s")
    if algorithm != "HS256":
        assert "does not accept" in refusal(verifier(secret_key(short)), jwt.encode({"sub": "app"}, short, algorithm))


@pytest.mark.parametrize("encode", [der, pem])
@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512"])
def test_a_public_key_verifies_the_algorithms_of_its_kind(algorithm, encode):
    private = EC.get(algorithm, RSA)
    token = jwt.encode({"sub": "app"}, private, algorithm)
    assert verifier(*public_keys(encode(private))).verify(token, NOW_S).role == "app"


def test_a_key_of_another_kind_or_curve_is_not_tried():
    token = jwt.encode({"sub": "app"}, EC["ES384"], "ES384")
    for keys in (public_keys(der(EC["ES256"])), public_keys(der(RSA)), (secret_key(SECRET),)):
        assert "does not accept" in refusal(verifier(*keys), token)


@pytest.mark.parametrize("encode", [der, pem])
@pytest.mark.parametrize("private", [RSA, EC["ES256"]])
def test_a_public_key_is_never_taken_for_a_secret(private, encode):
    token = signed({"alg": "HS256", "typ": "JWT"}, {"sub": "admin"}, encode(private))
    assert "does not accept" in refusal(verifier(*public_keys(encode(private))), token)
    assert "does not accept" in refusal(verifier(*public_keys(key_set(a=private))), token)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, ["HS256"], 1])
def test_a_token_without_a_signature_is_refused(algorithm):
    token = signed({"alg": algorithm}, {"sub": "admin"})
    for keys in ((secret_key(SECRET),), public_keys(der(RSA))):
        assert refusal(verifier(*keys), token)


def test_the_key_that_a_token_names_is_the_one_that_counts():
    keys = verifier(*public_keys(key_set(old=OTHER_RSA, new=RSA, curve=EC["ES256"])))
    for name, private, algorithm in (
        ("old", OTHER_RSA, "RS256"),
        ("new", RSA, "RS512"),
        ("curve", EC["ES256"], "ES256"),
    ):
        token = jwt.encode({"sub": "app"}, private, algorithm, headers={"kid": name})
        assert keys.verify(token, NOW_S).role == "app"
    assert "not that of" in refusal(keys, jwt.encode({"sub": "app"}, RSA, "RS256", headers={"kid": "old"}))
    assert "does not accept" in refusal(keys, jwt.encode({"sub": "app"}, RSA, "RS256", headers={"kid": "gone"}))
    assert "does not accept" in refusal(keys, jwt.encode({"sub": "app"}, RSA, "RS256", headers={"kid": "curve"}))


def test_a_token_that_names_no_key_is_tried_with_each():
    keys = verifier(*public_keys(key_set(old=OTHER_RSA, new=RSA)))
    assert keys.verify(jwt.encode({"sub": "app"}, RSA, "RS256"), NOW_S).role == "app"


def test_a_single_key_takes_tokens_that_name_any_key():
    token = jwt.encode({"sub": "app"}, RSA, "RS256", headers={"kid": "7"})
    assert verifier(*public_keys(der(RSA))).verify(token, NOW_S).role == "app"


def test_a_changed_or_foreign_token_is_refused():
    keys = verifier(secret_key(SECRET))
    token = jwt.encode({"sub": "app"}, SECRET, "HS256")
    head, claims, mac = token.split(".")
    other = jwt.encode({"sub": "admin"}, SECRET, "HS256").split(".")[1]
    foreign = jwt.encode({"sub": "app"}, b"f" * 64, "HS256")
    for wrong in (f"{head}.{other}.{mac}", f"{head}.{claims}.", foreign):
        assert "not that of" in refusal(keys, wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "a.b.c",
        "é.b.c",
        "x" * 60_000,
        base64.urlsafe_b64encode(b"[" * 40_000).decode() + ".e30.e30",
        base64.urlsafe_b64encode(b'{"alg":"HS256","crit":["b64"],"b64":false}').decode() + ".e30.e30",
    ],
)
def test_what_is_no_token_is_refused(text):
    assert refusal(verifier(secret_key(SECRET)), text)


@pytest.mark.parametrize(("before", "after"), [("", "\n"), (" ", ""), ("", " ")])
def test_white_space_around_a_token_is_named(before, after):
    token = jwt.encode({"sub": "app"}, SECRET, "HS256")
    assert "leave out its white space" in refusal(verifier(secret_key(SECRET)), f"{before}{token}{after}")


def test_times_are_held_to_within_the_skew():
    settings = SecuritySettings(token_clock_skew_s=10.0)

    def plan(**claims):
        return plan_token({"sub": "app", **claims}, settings, NOW_S)

    assert plan(exp=NOW_S - 9) == TokenFacts("app", NOW_S + 1)
    assert plan(nbf=NOW_S + 10) == TokenFacts("app", None)
    with pytest.raises(AuthenticationFailed, match="has expired"):
        plan(exp=NOW_S - 10)
    with pytest.raises(AuthenticationFailed, match="not valid yet"):
        plan(nbf=NOW_S + 11)


@pytest.mark.parametrize("value", ["1", True, [], {}, 10**400, float("nan"), float("inf")])
@pytest.mark.parametrize("claim", ["exp", "nbf"])
def test_a_time_that_is_none_does_not_last_for_ever(claim, value):
    with pytest.raises(AuthenticationFailed, match=f"'{claim}' is no time"):
        plan_token({"sub": "app", claim: value}, SecuritySettings(), NOW_S)


@pytest.mark.parametrize(
    ("claims", "accepted"),
    [
        ({"aud": "eu"}, True),
        ({"aud": ["us", "eu"]}, True),
        ({"aud": "us"}, False),
        ({"aud": ["us"]}, False),
        ({"aud": []}, False),
        ({"aud": None}, False),
        ({"aud": {"eu": 1}}, False),
        ({"aud": "europe"}, False),
        ({}, False),
    ],
)
def test_a_token_is_for_the_audience_of_the_settings(claims, accepted):
    settings = SecuritySettings(token_audience_claim="aud", token_audience="eu")
    if accepted:
        assert plan_token({"sub": "app", **claims}, settings, NOW_S).role == "app"
    else:
        with pytest.raises(AuthenticationFailed, match="another audience"):
            plan_token({"sub": "app", **claims}, settings, NOW_S)


@pytest.mark.parametrize("role", [None, "", [], [""], [["app"]], 5, True, {"app": 1}])
def test_a_role_is_a_text(role):
    with pytest.raises(AuthenticationFailed, match="names no role"):
        plan_token({"sub": role}, SecuritySettings(), NOW_S)


def test_the_role_is_in_the_claim_of_the_settings():
    settings = SecuritySettings(token_role_claim="roles")
    assert plan_token({"sub": "app", "roles": ["first", "second"]}, settings, NOW_S).role == "first"
    with pytest.raises(AuthenticationFailed, match="'roles'"):
        plan_token({"sub": "app"}, settings, NOW_S)

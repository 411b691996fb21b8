"""Keys of tokens from settings, and which settings are refused. No error holds a key."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import RSAAlgorithm

from mledger.broker.security.security_settings import SecuritySettings
from mledger.broker.security.token_keys import public_keys, read_token_keys, secret_key
from mledger.metastore.errors import InvalidSetting

RSA = rsa.generate_private_key(65537, 2048)
JWK = RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True)
PUBLIC = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("form", ["file", "path", "base64", "data"])
def test_a_secret_is_read_from_where_the_settings_say(tmp_path, form):
    secret, file = bytes(range(32, 64)), tmp_path / "a secret.key"
    file.write_bytes(secret)
    encoded = base64.b64encode(secret).decode()
    sources = {"file": file.as_uri(), "path": str(file), "base64": encoded, "data": f"data:;base64,{encoded}"}
    (key,) = read_token_keys(SecuritySettings(token_secret_key=sources[form]))
    assert key.key == secret
    assert key.algorithms == ("HS256",)


def test_a_secret_wins_over_a_public_key():
    both = SecuritySettings(token_secret_key=base64.b64encode(b"s" * 64).decode(), token_public_key="data:,nonsense")
    assert [key.key for key in read_token_keys(both)] == [b"s" * 64]


def test_a_short_secret_is_refused():
    with pytest.raises(InvalidSetting, match="31 bytes: at least 32"):
        secret_key(b"s" * 31)


@pytest.mark.parametrize("source", ["file:///no/such/file", "not base64 at all!", "data:;base64,***"])
def test_a_source_that_cannot_be_read_is_refused(source):
    with pytest.raises(InvalidSetting, match="tokenSecretKey") as raised:
        read_token_keys(SecuritySettings(token_secret_key=source))
    if not source.startswith("file:"):
        assert source not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        RSA.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        b"{",
        b"{}",
        b'{"keys": []}',
        b'{"keys": 5}',
        b'{"keys": [5]}',
        b'{"keys": [{"kty": "RSA"}]}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}).encode(),
        b"[" * 100_000,
        b'{"keys":' + b"[" * 100_000,
    ],
    ids=lambda _: "keys",
)
def test_what_is_no_public_key_is_refused(data):
    with pytest.raises(InvalidSetting, match="tokenPublicKey"):
        public_keys(data)


def test_the_algorithm_of_the_settings_is_one_of_the_key():
    source = f"data:;base64,{base64.b64encode(PUBLIC).decode()}"
    assert read_token_keys(SecuritySettings(token_public_key=source, token_algorithm="RS384"))
    with pytest.raises(InvalidSetting, match="tokenPublicAlg is 'ES256'"):
        read_token_keys(SecuritySettings(token_public_key=source, token_algorithm="ES256"))


@pytest.mark.parametrize(
    ("more", "algorithms"),
    [
        ({}, ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ({"alg": "RS512"}, ("RS512",)),
        ({"alg": "RS256", "use": "sig"}, ("RS256",)),
    ],
)
def test_a_key_of_a_set_is_for_the_algorithm_that_it_names(more, algorithms):
    (key,) = public_keys(json.dumps({"keys": [JWK | more]}).encode())
    assert sorted(key.algorithms) == sorted(algorithms)


@pytest.mark.parametrize("more", [{"use": "enc"}, {"alg": "RSA-OAEP"}])
def test_a_key_of_a_set_that_is_for_encryption_verifies_no_token(more):
    with pytest.raises(InvalidSetting, match="JWKS without a public key"):
        public_keys(json.dumps({"keys": [JWK | more]}).encode())

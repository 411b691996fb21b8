"""Keys and tokens that are made here are those that brokers read."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key

from mledger.broker.security.security_settings import SecuritySettings
from mledger.broker.security.token_keys import public_keys, secret_key
from mledger.broker.security.token_signer import (
    create_key_pair,
    create_secret,
    sign_with_private_key,
    sign_with_secret,
)
from mledger.broker.security.tokens import TokenVerifier
from mledger.metastore.errors import InvalidSetting

CLAIMS = {"sub": "billing"}


def role(keys, token):
    return TokenVerifier(SecuritySettings(), keys).verify(token, 0.0).role


@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_has_the_length_of_its_hash_and_its_tokens_are_accepted(algorithm, size):
    secret = create_secret(algorithm)
    assert len(secret) == size
    assert create_secret(algorithm) != secret
    assert role((secret_key(secret),), sign_with_secret(secret, CLAIMS)) == "billing"


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "ES512"])
@pytest.mark.parametrize("written", ["der", "pem"])
def test_tokens_of_a_private_key_are_accepted_with_its_public_key(algorithm, written):
    private, public = create_key_pair(algorithm)
    if written == "pem":
        key = load_der_private_key(private, None)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert role(public_keys(public), sign_with_private_key(private, algorithm, CLAIMS)) == "billing"


def test_a_curve_has_its_own_algorithm_whatever_is_asked():
    private, public = create_key_pair("ES384")
    assert role(public_keys(public), sign_with_private_key(private, "RS256", CLAIMS)) == "billing"


def test_keys_that_no_token_is_signed_with_are_refused():
    with pytest.raises(InvalidSetting, match="at least 32 are needed"):
        sign_with_secret(b"short", CLAIMS)
    with pytest.raises(InvalidSetting, match="the private key cannot be read"):
        sign_with_private_key(b"no key", "RS256", CLAIMS)
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(InvalidSetting, match="an RSA key or a key of a NIST curve is needed"):
        sign_with_private_key(other, "RS256", CLAIMS)
    with pytest.raises(InvalidSetting, match="the algorithm ES256"):
        sign_with_private_key(create_key_pair("RS256")[0], "ES256", CLAIMS)

"""Makes the keys that tokens (JWT) are signed with, and the tokens; `token_keys` reads what this makes.

Secrets are plain bytes, private keys PKCS #8 in DER, public keys X.509 in DER, as Pulsar's own programs write them.
"""

import secrets
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
)

from mledger.broker.security.token_keys import secret_key
from mledger.metastore.errors import InvalidSetting

SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
_CURVES: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
_RSA_BITS = {f"{kind}{size}": size * 8 for kind in ("RS", "PS") for size in (256, 384, 512)}
PAIR_ALGORITHMS = (*_RSA_BITS, *_CURVES)
_EXPONENT = 65537


def create_secret(algorithm: str) -> bytes:
    """A new secret, as long as the hash of one of `SECRET_BYTES`."""
    return secrets.token_bytes(SECRET_BYTES[algorithm])


def create_key_pair(algorithm: str) -> tuple[bytes, bytes]:
    """A new private key and its public key, for one of `PAIR_ALGORITHMS`."""
    private = (
        ec.generate_private_key(_CURVES[algorithm])
        if algorithm in _CURVES
        else rsa.generate_private_key(_EXPONENT, _RSA_BITS[algorithm])
    )
    public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), public


def sign_with_secret(key: bytes, claims: dict[str, Any]) -> str:
    """A token signed with the strongest algorithm that the secret is long enough for. InvalidSetting: for none."""
    return jwt.encode(claims, key, secret_key(key).algorithms[-1])


def sign_with_private_key(key: bytes, algorithm: str, claims: dict[str, Any]) -> str:
    """A token signed with a private key in DER or PEM; `algorithm` is for RSA, a curve has its own. InvalidSetting."""
    try:
        private = load_pem_private_key(key, None) if b"-----BEGIN" in key else load_der_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise InvalidSetting(f"the private key cannot be read: {error}; name one in DER or PEM") from None
    if isinstance(private, rsa.RSAPrivateKey) and algorithm in _RSA_BITS:
        return jwt.encode(claims, private, algorithm)
    if isinstance(private, ec.EllipticCurvePrivateKey):
        own = next((name for name, curve in _CURVES.items() if curve.name == private.curve.name), None)
        if own is not None:
            return jwt.encode(claims, private, own)
    raise InvalidSetting(
        f"the private key is a {type(private).__name__}, the algorithm {algorithm}: "
        "an RSA key or a key of a NIST curve is needed, and an algorithm for it"
    )

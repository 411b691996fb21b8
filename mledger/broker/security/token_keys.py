"""The keys that tokens (JWT) may be signed with: a secret, a public key as DER or PEM, or a set of keys (JWKS).

A key is for the algorithms of its own kind only, so that a public key never counts as a secret. A secret has at least
as many bits as the hash of its algorithm.
"""

import json
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from jwt import PyJWKSet
from jwt.exceptions import PyJWTError

from mledger.broker.security.key_source import read_source
from mledger.broker.security.security_settings import SecuritySettings
from mledger.metastore.errors import InvalidSetting

_SECRETS = (("HS256", 32), ("HS384", 48), ("HS512", 64))
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
_PUBLIC = "tokenPublicKey"


class TokenKey(NamedTuple):
    """A key, the algorithms that it is for, and its id in a set of keys."""

    key: Any
    algorithms: tuple[str, ...]
    key_id: str = ""


def read_token_keys(settings: SecuritySettings) -> tuple[TokenKey, ...]:
    """The keys that the settings name; as in Pulsar, a secret wins over a public key. InvalidSetting."""
    if settings.token_secret_key:
        return (secret_key(read_source("tokenSecretKey", settings.token_secret_key)),)
    keys = public_keys(read_source(_PUBLIC, settings.token_public_key))
    wanted = settings.token_algorithm
    if wanted and not any(wanted in key.algorithms for key in keys):
        raise InvalidSetting(f"tokenPublicAlg is {wanted!r}: the key of {_PUBLIC} is for {_listed(keys)}")
    return keys


def secret_key(data: bytes) -> TokenKey:
    """The secret. InvalidSetting if it is too short for every algorithm."""
    algorithms = tuple(name for name, size in _SECRETS if len(data) >= size)
    if not algorithms:
        raise InvalidSetting(f"tokenSecretKey has {len(data)} bytes: at least {_SECRETS[0][1]} are needed")
    return TokenKey(data, algorithms)


def public_keys(data: bytes) -> tuple[TokenKey, ...]:
    """The public key in DER or PEM, or all of a set. InvalidSetting if there is none that tokens are signed with."""
    if data.lstrip().startswith(b"{"):
        return _key_set(data)
    try:
        key = load_pem_public_key(data) if b"-----BEGIN" in data else load_der_public_key(data)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidSetting(f"{_PUBLIC} cannot be read: {error}; name a public key in DER or PEM, or a JWKS") from None
    algorithms = _algorithms(key)
    if not algorithms:
        raise InvalidSetting(f"{_PUBLIC} is a {type(key).__name__}: an RSA key or a key of a NIST curve is needed")
    return (TokenKey(key, algorithms),)


def _key_set(data: bytes) -> tuple[TokenKey, ...]:
    try:
        listed = json.loads(data)["keys"]
        found = [_key_of_set(each) for each in listed if each.get("use") != "enc"]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise InvalidSetting(f"{_PUBLIC} cannot be read as a JWKS: {type(error).__name__}") from None
    usable = tuple(key for key in found if key is not None and key.algorithms)
    if not usable:
        raise InvalidSetting(f"{_PUBLIC} is a JWKS without a public key: RSA keys or keys of NIST curves are needed")
    return usable


def _key_of_set(listed: dict[str, Any]) -> TokenKey | None:
    """A key of a set, for the algorithm that it names if it names one; None if this program cannot use it."""
    try:
        (found,) = PyJWKSet.from_dict({"keys": [listed]}).keys
    except PyJWTError:
        return None
    named, algorithms = listed.get("alg"), _algorithms(found.key)
    return TokenKey(found.key, tuple(each for each in algorithms if named in (None, each)), found.key_id or "")


def _algorithms(key: object) -> tuple[str, ...]:
    if isinstance(key, RSAPublicKey):
        return _RSA
    return _CURVES.get(key.curve.name, ()) if isinstance(key, EllipticCurvePublicKey) else ()


def _listed(keys: tuple[TokenKey, ...]) -> str:
    return ", ".join(sorted({name for key in keys for name in key.algorithms}))

"""How a client logs in to ZooKeeper, over what, and who may use the nodes it creates: a file that the URL names.

The file has lines `key = value` and comments that begin with `#`. Secrets stay in it, or where it says that they are
(`secrets`): no URL, command line or log has them.

| key | value |
| --- | --- |
| `digest` | `user:password`; may be given more than once |
| `sasl.mechanism` | `DIGEST-MD5` or `GSSAPI` |
| `sasl.username`, `sasl.password` | for DIGEST-MD5 |
| `sasl.service` | the servers' service name, by default `zookeeper` |
| `zookeeper.client.secure` | `true`: TLS |
| `zookeeper.ssl.trustStore.location` | PEM file of the authorities to trust, by default the system's |
| `zookeeper.ssl.keyStore.location`, `zookeeper.ssl.keyStore.password` | PEM file of this client's certificate and key |
| `zookeeper.ssl.hostnameVerification` | `false`: take a certificate of any name |
| `acl` | for nodes created, as zkCli writes it: `scheme:id:cdrwa,…`, or `creator`: whoever logged in may do all |
| `zkEnableSecurity` | `true`: as `acl = creator` (BookKeeper's key) |
| `jute.maxbuffer` | bytes that the servers take in one request, if that is not ZooKeeper's own limit |
| a secret's key with `.file`, `.env` or `.prompt` | where `digest`, `sasl.password` or the key store's password is |
"""

import os

from msgspec import Struct

from mledger.metastore.errors import InvalidMetadataUrl
from mledger.metastore.zookeeper.secrets import KINDS, SecretNotFound, find_secret

SECRETS = ("digest", "sasl.password", "zookeeper.ssl.keyStore.password")

MIN_REQUEST_BYTES = 65_536  # with less no topic of some hundred ledgers could be written
MECHANISMS = ("DIGEST-MD5", "GSSAPI")
_PERMISSIONS = "crwda"
_TRUTHS = {"true": True, "false": False}
_KEYS = (
    "digest",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.service",
    "zookeeper.client.secure",
    "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.hostnameVerification",
    "acl",
    "zkEnableSecurity",
    "jute.maxbuffer",
    *(f"{key}.{kind}" for key in SECRETS for kind in KINDS),
)


class AclEntry(Struct, frozen=True):
    """Who (`scheme`, `identity`) may do what: letters of `crwda`, create, read, write, delete, administer."""

    scheme: str
    identity: str
    permissions: str


def parse_acl_entry(text: str) -> AclEntry:
    """The entry written as `scheme:id:permissions`; ValueError says what is wrong with anything else."""
    scheme, _, rest = text.partition(":")
    identity, separator, permissions = rest.rpartition(":")
    if not scheme or not separator or not permissions or set(permissions) - set(_PERMISSIONS):
        raise ValueError(f"{text!r} is not scheme:id:permissions with letters of {_PERMISSIONS}")
    return AclEntry(scheme, identity, permissions)


WORLD = (AclEntry("world", "anyone", _PERMISSIONS),)
CREATOR = (AclEntry("auth", "", _PERMISSIONS),)


class SaslLogin(Struct, frozen=True):
    """A login by SASL; user and password for DIGEST-MD5, GSSAPI takes the system's ticket."""

    mechanism: str
    username: str
    password: str
    service: str = "zookeeper"

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism}, {self.username})"


class Tls(Struct, frozen=True):
    """PEM files; empty: the system's authorities, no certificate of this client."""

    authorities: str = ""
    certificate: str = ""
    password: str = ""
    check_hostname: bool = True

    def __repr__(self) -> str:
        return f"Tls({self.authorities}, {self.certificate})"


class Security(Struct, frozen=True):
    """All of it; the default is what an open ensemble takes."""

    digests: tuple[str, ...] = ()
    sasl: SaslLogin | None = None
    tls: Tls | None = None
    acl: tuple[AclEntry, ...] = WORLD
    max_request_bytes: int = 0  # 0: not said

    def __repr__(self) -> str:
        return f"Security(digests={len(self.digests)}, sasl={self.sasl}, tls={self.tls}, acl={self.acl})"

    @property
    def logs_in(self) -> bool:
        """Whether the servers may refuse the login."""
        return bool(self.digests) or self.sasl is not None


def read_security(path: str) -> Security:
    """What the file at `path` says. InvalidMetadataUrl when it cannot be read or does not make sense."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidMetadataUrl(f"the ZooKeeper configuration {path} cannot be read: {error}") from None
    return parse_security(text, path)


def parse_security(text: str, path: str = "") -> Security:
    """What the lines of `text` say; relative files are beside `path`. InvalidMetadataUrl names a line that is wrong."""
    values: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, separator, value = (part.strip() for part in line.partition("="))
        if not line.strip() or key.startswith("#"):
            continue
        if not separator or key not in _KEYS:
            raise _wrong(path, f"line {number}: {key!r} is none of {', '.join(_KEYS)}")
        base, _, kind = key.rpartition(".")
        name = base if base in SECRETS and kind in KINDS else key
        if name in values and name != "digest":
            raise _wrong(path, f"line {number}: {name} is there twice")
        try:
            found = value if name == key else find_secret(name, kind, value, path)
        except SecretNotFound as error:
            raise _wrong(path, f"line {number}: {error}") from None
        values.setdefault(name, []).append(found)
    first = {key: found[0] for key, found in values.items()}
    digests = tuple(values.get("digest", ()))
    if any(":" not in digest for digest in digests):
        raise _wrong(path, "digest is not user:password")
    most = _bytes(first, "jute.maxbuffer", path)
    security = Security(digests, _sasl(first, path), _tls(first, path), _acl(first, path), most)
    if security.acl == CREATOR and not security.logs_in:
        raise _wrong(path, "nodes are to belong to their creator, who does not log in: add digest or sasl.mechanism")
    return security


def _bytes(values: dict[str, str], key: str, path: str) -> int:
    text = values.get(key, "0")
    try:
        found = int(text, 0)  # ZooKeeper takes 0xfffff, too
    except ValueError:
        found = -1
    if found < 0 or (key in values and found < MIN_REQUEST_BYTES):
        raise _wrong(path, f"{key} {text!r} is not a number of bytes from {MIN_REQUEST_BYTES} on")
    return found


def _sasl(values: dict[str, str], path: str) -> SaslLogin | None:
    mechanism = values.get("sasl.mechanism", "")
    if not mechanism:
        return None
    if mechanism not in MECHANISMS:
        raise _wrong(path, f"sasl.mechanism {mechanism!r} is none of {', '.join(MECHANISMS)}")
    username, password = values.get("sasl.username", ""), values.get("sasl.password", "")
    if mechanism == "DIGEST-MD5" and not (username and password):
        raise _wrong(path, "sasl.username or sasl.password is missing")
    return SaslLogin(mechanism, username, password, values.get("sasl.service", "zookeeper"))


def _tls(values: dict[str, str], path: str) -> Tls | None:
    if not _truth(values, "zookeeper.client.secure", False, path):
        return None
    return Tls(
        _file(values, "zookeeper.ssl.trustStore.location", path),
        _file(values, "zookeeper.ssl.keyStore.location", path),
        values.get("zookeeper.ssl.keyStore.password", ""),
        _truth(values, "zookeeper.ssl.hostnameVerification", True, path),
    )


def _file(values: dict[str, str], key: str, path: str) -> str:
    name = values.get(key, "")
    if not name:
        return ""
    found = os.path.join(os.path.dirname(os.path.abspath(path)), name)
    try:
        with open(found, "rb") as file:
            pem = b"-----BEGIN " in file.read()
    except OSError as error:
        raise _wrong(path, f"{key}: {found} cannot be read: {error.strerror}") from None
    if not pem:
        raise _wrong(path, f"{key}: {found} is not PEM; make one of a Java key store with keytool and openssl")
    return found


def _acl(values: dict[str, str], path: str) -> tuple[AclEntry, ...]:
    secure = _truth(values, "zkEnableSecurity", False, path)
    text = values.get("acl", "creator" if secure else "")
    if not text:
        return WORLD
    if text == "creator":
        return CREATOR
    return tuple(_entry(each.strip(), path) for each in text.split(","))


def _entry(text: str, path: str) -> AclEntry:
    try:
        return parse_acl_entry(text)
    except ValueError as error:
        raise _wrong(path, f"acl: {error}") from None


def _truth(values: dict[str, str], key: str, default: bool, path: str) -> bool:
    text = values.get(key, str(default)).lower()
    if text not in _TRUTHS:
        raise _wrong(path, f"{key} is {text!r}, not true or false")
    return _TRUTHS[text]


def _wrong(path: str, what: str) -> InvalidMetadataUrl:
    return InvalidMetadataUrl(f"the ZooKeeper configuration {path}: {what}")

"""Users and hashes of their passwords, in a file that Apache's htpasswd writes: `user:hash` in each line."""

import hmac
from collections.abc import Mapping

from passlib.context import CryptContext

from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.system_crypt import system_hash
from mledger.metastore.errors import InvalidSetting

_WRONG = "unknown user or wrong password"
_CONTEXT = CryptContext(schemes=["apr_md5_crypt", "sha512_crypt", "sha256_crypt", "md5_crypt", "des_crypt"])
"""What Pulsar's AuthenticationProviderBasic reads: hashes of htpasswd -m, and those of crypt."""
_WITH_ROUNDS = ("$5$", "$6$")
"""How the hashes begin whose file says how many rounds they have, up to 999,999,999."""
_MOST_ROUNDS = 10_000_000
"""More take many seconds for each password that anybody shows, while all others wait."""
_LONGEST = 4096
"""Bytes of a password, as passlib's: a round takes longer for a longer one."""


class PasswordFile:
    """Checks passwords. A check takes time by design: `PasswordQueue` calls it on a thread."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = hashes

    def verify(self, user: str, password: str) -> str:
        """The user's role, which is its name. AuthenticationFailed does not tell whether there is such a user."""
        known = self._hashes.get(user)
        compared = known or next(iter(self._hashes.values()), None)  # takes as long as that of a user who exists
        try:
            matches = compared is not None and _matches(password, compared) and known is not None
        except (ValueError, TypeError):  # a password that no hash can be of
            matches = False
        if not matches:
            raise AuthenticationFailed(_WRONG)
        return user


def _matches(password: str, known: str) -> bool:
    """Whether the password has this hash. ValueError, TypeError for one that no hash can be of."""
    if known.startswith(_WITH_ROUNDS) and len(shown := password.encode()) <= _LONGEST:
        found = system_hash(shown, known)
        if found is not None and len(found) == len(known):  # else it is of another method than was asked for
            return hmac.compare_digest(found.encode(), known.encode())
    return bool(_CONTEXT.verify(password, known))


def decode_passwords(data: bytes) -> PasswordFile:
    """The users of a file. InvalidSetting names the line that cannot be read, not what it says."""
    hashes: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, _, known = line.strip().partition(":")
        rounds = _rounds(known)
        if not user or rounds is None:
            raise InvalidSetting(
                f"basicAuthConf, line {number}: user:hash is needed, with a hash that htpasswd -m or crypt writes"
            )
        if rounds > _MOST_ROUNDS:
            raise InvalidSetting(
                f"basicAuthConf, line {number}: a hash of {rounds:,} rounds takes too long to check; make one of at "
                f"most {_MOST_ROUNDS:,}"
            )
        hashes[user] = known
    return PasswordFile(hashes)


def _rounds(known: str) -> int | None:
    """How many rounds a hash says that it has, 0 if it has no number of them; None if it cannot be read."""
    kind = _CONTEXT.identify(known, resolve=True)
    try:
        found = None if kind is None else kind.from_string(known)
    except ValueError:
        return None
    return None if found is None or found.checksum is None else int(getattr(found, "rounds", 0))

"""How this program shows brokers who it is over HTTP: a token, and the authority that their certificates are by."""

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from mledger.metastore.errors import InvalidSetting

TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "MLEDGER_TOKEN", "MLEDGER_TOKEN_FILE"
_OF_TOKENS = frozenset(string.ascii_letters + string.digits + "-._~+/=")


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """A token, empty for none, and a file of authorities, None for those of the system."""

    token: str = field(default="", repr=False)
    trust_certs: str | None = None

    def request(self, url: str) -> Request:
        """A request with the token. If the answer leads elsewhere, the token does not go with it."""
        request = Request(url)  # noqa: S310 - the URL is a broker's
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        return request

    def opener(self) -> OpenerDirector:
        """What sends requests, past all proxies. InvalidSetting if the authorities cannot be read."""
        direct = ProxyHandler({})  # brokers are in the cluster's network
        if self.trust_certs is None:
            return build_opener(direct)
        import ssl

        try:
            return build_opener(direct, HTTPSHandler(context=ssl.create_default_context(cafile=self.trust_certs)))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "it has no certificates"
            raise InvalidSetting(f"--trust-certs: {self.trust_certs} cannot be read: {why}; name a PEM file") from None


def read_access(token_file: str | None, trust_certs: str | None, environment: Mapping[str, str]) -> BrokerAccess:
    """The access that options and variables name: the option's file wins over the variable's, and that over the token.

    Raises:
        InvalidSetting: the file cannot be read, or has no token. No message holds what it has.
    """
    named = (("--token-file", token_file), (TOKEN_FILE_VARIABLE, environment.get(TOKEN_FILE_VARIABLE)))
    where, path = next(((each, path) for each, path in named if path), (TOKEN_VARIABLE, None))
    if path is None:
        text = environment.get(TOKEN_VARIABLE, "").strip()
        if not text:
            return BrokerAccess("", trust_certs)
    else:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except OSError as error:
            raise InvalidSetting(f"{where}: {path} cannot be read: {error.strerror}; name the file") from None
        except UnicodeDecodeError:
            text = ""
    if not text or not _OF_TOKENS.issuperset(text):
        raise InvalidSetting(f"{where}: {path or 'its value'} is no token: one line of letters, digits and -._~+/=")
    return BrokerAccess(text, trust_certs)

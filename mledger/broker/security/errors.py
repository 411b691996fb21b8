"""Why a client is refused. No message holds a token or a password."""

from mledger.metastore.errors import MledgerError


class AuthenticationFailed(MledgerError):
    """The client's credentials are missing, wrong or expired."""


class AuthenticationBusy(MledgerError):
    """Too many clients' credentials are being checked: this one's were not looked at."""


class NotAuthorized(MledgerError):
    """The client's role may not do what it asks for."""

"""The one place where a request of the admin API is allowed or refused, before its action begins."""

from collections.abc import Awaitable, Callable

from mledger.broker.admin_rest.requests import AdminOperation, AdminRequest

Authorize = Callable[[AdminRequest, AdminOperation], Awaitable[None]]
"""Raises AdminRefusal with Pulsar's status (401, 403) unless whoever sent the request may do this."""


async def allow_all(request: AdminRequest, operation: AdminOperation) -> None:
    """Everyone who reaches the port may do everything: a broker without authentication."""

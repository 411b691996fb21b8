"""A broker's guard: who a client is, and whether it may do what it asks for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mledger.admin.namespaces import require_tenant
from mledger.broker.security.credentials import Credentials
from mledger.broker.security.errors import NotAuthorized
from mledger.broker.security.peer_settings import client_context
from mledger.broker.security.permissions import (
    Permissions,
    RoleRules,
    TopicOperation,
    decode_permissions,
    may_use_namespace,
    may_use_topic,
)
from mledger.broker.security.principals import ANYBODY, Principal, plan_principal
from mledger.broker.security.security_settings import SecuritySettings
from mledger.metastore.records.paths import NAMESPACE_POLICIES, TopicName
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates
from mledger.metastore.runtime.packages import check_authentication
from mledger.metastore.store import MetadataReader

if TYPE_CHECKING:
    from mledger.broker.security.authentication import Authenticator


class BrokerSecurity:
    """Authentication and authorization by `settings`, with permissions that `reader` has."""

    def __init__(self, settings: SecuritySettings, reader: MetadataReader) -> None:
        self.settings = settings
        self.authenticator: Authenticator | None = None
        self._reader = reader
        self._rules = RoleRules(settings.super_users, settings.wildcards)
        self.peer_certificates: RenewedCertificates | None = None
        """For connections to other brokers; None: what the system has."""
        if settings.peers.files:
            self.peer_certificates = RenewedCertificates(
                lambda: client_context(settings.peers), settings.peers.files, settings.peers_refresh_check_s
            )
        if settings.authentication:
            check_authentication()
            from mledger.broker.security import authentication  # its libraries are an extra

            self.authenticator = authentication.Authenticator(settings)

    async def connect(self, shown: Credentials, original: str, original_shown: Credentials | None) -> Principal:
        """Who a client of the binary protocol is. AuthenticationFailed, AuthenticationBusy, NotAuthorized.

        With `original_authenticated`, the role of a proxy's client is that of its own credentials, whatever is named.
        """
        if self.authenticator is None:
            return ANYBODY
        principal = await self.authenticator.authenticate(shown)
        if not self.settings.original_authenticated or not (original or original_shown):
            return self._of_proxy(principal, original, over_http=False)
        verified = await self.authenticator.authenticate(original_shown or Credentials(""))
        principal = self._of_proxy(principal, verified.role, over_http=False)
        return principal._replace(original=verified.role, expires_s=verified.expires_s, original_verified=True)

    async def of_http(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> Principal:
        """Who the client of an HTTP request is. AuthenticationFailed, AuthenticationBusy, NotAuthorized."""
        if self.authenticator is None:
            return ANYBODY
        principal = await self.authenticator.of_http(headers, certificate)
        return self._of_proxy(principal, headers.get("x-original-principal", ""), over_http=True)

    def _of_proxy(self, principal: Principal, original: str, *, over_http: bool) -> Principal:
        if not self.settings.authorization:
            return principal
        return plan_principal(principal, original, self.settings.proxy_roles, over_http=over_http)

    async def allow(
        self, principal: Principal, operation: TopicOperation, topic: TopicName, subscription: str = ""
    ) -> None:
        """Return if the client may do this with the topic.

        Raises:
            NotAuthorized: it may not.
            NamespaceNotFound: it may not, and there is no such tenant.
            MetadataError: that cannot be read.
        """
        if not self.settings.authorization or self._all_super(principal):
            return
        permissions = await self.permissions(topic.namespace_name)
        role = self.refused(principal, operation, topic, permissions, subscription)
        if role is not None:
            await require_tenant(self._reader, topic.tenant)
            raise NotAuthorized(f"the role {role!r} may not {operation.value} {topic}")

    def refused(
        self,
        principal: Principal,
        operation: TopicOperation,
        topic: TopicName,
        permissions: Permissions,
        subscription: str = "",
    ) -> str | None:
        """The first role of the client that may not do this with the topic, by `permissions`; None if all may."""
        for role in principal.roles:
            if not may_use_topic(role, operation, topic, permissions, self._rules, subscription):
                return role
        return None

    async def allow_namespace(self, principal: Principal, namespace: str) -> None:
        """Return if the client may list the namespace's topics. NotAuthorized, NamespaceNotFound, MetadataError."""
        if not self.settings.authorization or self._all_super(principal):
            return
        role = self.refused_list(principal, await self.permissions(namespace))
        if role is not None:
            await require_tenant(self._reader, namespace.partition("/")[0])
            raise NotAuthorized(f"the role {role!r} may not list the topics of {namespace}")

    def refused_list(self, principal: Principal, permissions: Permissions) -> str | None:
        """The first role of the client that may not list a namespace's topics, by `permissions`; None if all may."""
        return next((role for role in principal.roles if not may_use_namespace(role, permissions, self._rules)), None)

    async def allow_admin(self, principal: Principal, tenant: str | None) -> None:
        """Raise NotAuthorized unless the client administers the tenant, or without one the cluster."""
        if not self.settings.authorization or self._all_super(principal):
            return
        admins: frozenset[str] = frozenset()
        if tenant:
            path = f"{NAMESPACE_POLICIES}/{tenant}"
            (node,) = await self._reader.get_many([path])
            admins = decode_permissions(None if node is None else node.data, None, path).admins
        for role in principal.roles:
            if role not in admins and role not in self._rules.super_users:
                raise NotAuthorized(f"the role {role!r} does not administer {tenant or 'this cluster'}")

    def _all_super(self, principal: Principal) -> bool:
        return all(role in self._rules.super_users for role in principal.roles)

    async def permissions(self, namespace: str) -> Permissions:
        """What is permitted in a namespace. MetadataError, RecordError if that cannot be read."""
        paths = [f"{NAMESPACE_POLICIES}/{each}" for each in (namespace.partition("/")[0], namespace)]
        tenant, policies = await self._reader.get_many(paths)
        of_tenant, of_namespace = (None if node is None else node.data for node in (tenant, policies))
        return decode_permissions(of_tenant, of_namespace, paths[1])

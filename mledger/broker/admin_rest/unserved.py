"""What Pulsar's admin API has and this broker does not: these paths answer 501, by name."""

from mledger.broker.admin_rest.requests import Access
from mledger.broker.admin_rest.route_table import EVERYTHING, AdminRoute

_BELOW = (
    "/admin/v2/broker-stats",
    "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}",
    "/admin/v2/resource-quotas",
    "/admin/v2/resourcegroups",
    "/admin/v2/worker",
    "/admin/v2/worker-stats",
    "/admin/v2/functions",
    "/admin/v2/metadata/migration",
    "/admin/v2/scalable",
    "/admin/v2/segments",
    "/admin/v3",
    "/admin/v2/clusters/{cluster}",
    "/admin/v2/schemas/{tenant}/{namespace}/{topic}",
    "/admin/v2/persistent/{tenant}/{namespace}/{topic}",
)
"""Everything below these that has no other route."""

_THEMSELVES = (
    ("*", "/admin/v2/resource-quotas"),
    ("*", "/admin/v2/resourcegroups"),
    ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics"),
    ("POST", "/admin/v2/namespaces/revokePermissionsOnTopics"),
    ("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}"),
    ("PUT", "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}"),
)
"""Paths that are not below one of these."""

UNSERVED: tuple[AdminRoute, ...] = (
    *(AdminRoute("*", f"{path}/{EVERYTHING}", Access.SUPER_USER) for path in _BELOW),
    *(AdminRoute(method, path, Access.SUPER_USER) for method, path in _THEMSELVES),
)

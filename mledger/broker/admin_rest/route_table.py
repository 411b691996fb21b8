"""Which action a request's method and path have. No I/O.

A pattern is a path whose elements are words, or names in braces that match any one element, as in
`/admin/v2/tenants/{tenant}`. Words win over names. A last element `{…}` matches everything below, of what Pulsar has
and this broker does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus

from msgspec import Struct, field

from mledger.broker.admin_rest.refusals import AdminRefusal, not_built, not_found
from mledger.broker.admin_rest.requests import ADMIN, Access, Action, AdminCall, AdminOperation, AdminRequest, plain
from mledger.metastore.records.paths import NON_PERSISTENT, PERSISTENT

EVERYTHING = "{…}"


class AdminRoute(Struct, frozen=True):
    """A method and pattern, who may use it, and what it does; without an action it is not built."""

    method: str
    pattern: str
    access: Access
    action: Action | None = None

    @property
    def name(self) -> str:
        """How authorization and refusals call it."""
        return f"{self.method} {self.pattern}"


class _Element(Struct):
    words: dict[str, "_Element"] = field(default_factory=dict)
    any: "_Element | None" = None
    routes: dict[str, AdminRoute] = field(default_factory=dict)
    below: dict[str, AdminRoute] = field(default_factory=dict)


class RouteTable:
    """The routes by the elements of their patterns."""

    def __init__(self, routes: Iterable[AdminRoute]) -> None:
        self._root = _Element()
        for route in routes:
            self._add(route)

    def _add(self, route: AdminRoute) -> None:
        at, elements = self._root, route.pattern.split("/")[1:]
        for element in elements:
            if element == EVERYTHING:
                at.below[route.method] = route
                return
            if element.startswith("{"):
                at.any = at.any or _Element()
                at = at.any
            else:
                at = at.words.setdefault(element, _Element())
        if route.method in at.routes:
            raise ValueError(f"two routes for {route.name}")
        at.routes[route.method] = route

    def call(self, request: AdminRequest) -> tuple[AdminCall, Action]:
        """The request with what its path names, and its action.

        Raises:
            AdminRefusal: there is no such path (404), no such method for it (405), or it is not built (501).
        """
        elements = [plain(each) for each in request.path.split("/")[1:]]
        method = "GET" if request.method == "HEAD" else request.method
        allowed: set[str] = set()
        for at, count in _matches(self._root, elements, 0):
            routes = at.routes if count == len(elements) else at.below
            route = routes.get(method) or routes.get("*")
            if route is None:
                allowed |= set(routes)
                continue
            if route.action is None:
                raise not_built(f"{method} {request.path}")
            values = _values(route.pattern, elements)
            return AdminCall(request, _operation(route, values), values), route.action
        if allowed:
            names = " ".join(sorted(allowed))
            raise AdminRefusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes {names}, not {request.method}")
        raise not_found(f"there is no {request.path}: docs/reference/admin-rest.md lists what is served")


def _matches(at: _Element, elements: Sequence[str], depth: int) -> Iterator[tuple[_Element, int]]:
    """The elements of the tree that match the whole path, words first, then those that take all below them."""
    if depth == len(elements):
        yield at, depth
        return
    below = at.words.get(elements[depth])
    if below is not None:
        yield from _matches(below, elements, depth + 1)
    if at.any is not None and elements[depth]:
        yield from _matches(at.any, elements, depth + 1)
    if at.below:
        yield at, depth


def _values(pattern: str, elements: Sequence[str]) -> dict[str, str]:
    names = pattern.split("/")[1:]
    pairs = zip(names, elements, strict=False)
    return {name[1:-1]: value for name, value in pairs if name.startswith("{") and name != EVERYTHING}


def _operation(route: AdminRoute, values: dict[str, str]) -> AdminOperation:
    return AdminOperation(
        route.name,
        route.access,
        values.get("tenant", ""),
        values.get("namespace", ""),
        values.get("topic", ""),
        values.get("subscription", ""),
        NON_PERSISTENT if route.pattern.startswith(f"{ADMIN}/{NON_PERSISTENT}/") else PERSISTENT,
    )

"""Who is connected to this node: lets users into virtual hosts, and out when they are deleted."""

from __future__ import annotations

from weakref import WeakValueDictionary

from cluster.access import Access
from cluster.catalog_state import CatalogState
from node.engine.errors import EntryRefusedError
from node.frontend.permissions import Scope
from node.frontend.ports import Entry, Subscriber


class Entrance:
    """The open connections of a node by the number of their holder."""

    def __init__(self, state: CatalogState, access: Access) -> None:
        self._state = state
        self._access = access
        self._scopes: WeakValueDictionary[tuple[str, str], Scope] = WeakValueDictionary()
        self._entered: dict[int, tuple[Scope, Subscriber]] = {}
        self._last_holder = 0
        self._removed = False

    def enter(self, subscriber: Subscriber, user: str, vhost: str) -> Entry:
        """Open a connection. Raises EntryRefusedError, in RabbitMQ's words."""
        if vhost not in self._state.vhosts:
            raise EntryRefusedError(f"vhost {vhost} not found")
        if not self._access.may_enter(user, vhost):
            raise EntryRefusedError(f"access to vhost '{vhost}' refused for user '{user}'")
        scope = self._scopes.get((vhost, user))
        if scope is None:
            scope = self._scopes[vhost, user] = Scope(user, vhost)
        self._last_holder += 1
        self._entered[self._last_holder] = (scope, subscriber)
        return Entry(scope, self._last_holder)

    def leave(self, holder: int) -> None:
        """The connection is closed."""
        self._entered.pop(holder, None)

    def access_removed(self) -> None:
        """Virtual hosts or users are gone: their connections are closed in the next tick.

        Not now: closing one changes the catalog, which is just being changed.
        """
        self._removed = True

    def tick(self) -> None:
        if not self._removed:
            return
        self._removed = False
        for scope, subscriber in list(self._entered.values()):
            if scope.vhost not in self._state.vhosts:
                subscriber.force_close(f"vhost '{scope.vhost}' is deleted")
            elif scope.user not in self._state.access.users:
                subscriber.force_close(f"user '{scope.user}' is deleted")

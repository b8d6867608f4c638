"""The client connections of this node: checks their limits, and closes those of deleted users and hosts."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakValueDictionary

from cluster.catalog.access.control import Access
from cluster.catalog.access.usage import Usage
from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState
from node.refusal import EntryRefusedError
from node.session.permissions import GrantedRights, Scope
from node.session.ports import Identity, VhostConnection
from node.session.subscriber import Subscriber


class Resident(NamedTuple):
    """An open connection."""

    scope: Scope
    subscriber: Subscriber


class ClientConnections(Observer):
    """The open connections of a node by their holder numbers; at most `largest`."""

    def __init__(self, state: CatalogState, access: Access, usage: Usage, largest: int) -> None:
        self._state = state
        self._access = access
        self._usage = usage
        self._largest = largest
        self._scopes: WeakValueDictionary[tuple[str, str, GrantedRights | None], Scope]
        self._scopes = WeakValueDictionary()
        self._residents: dict[int, Resident] = {}
        self._last_holder = 0
        self._removed = False

    def enter(self, subscriber: Subscriber, identity: Identity, vhost: str) -> VhostConnection:
        """Open a user's connection to a virtual host. Raises EntryRefusedError, in RabbitMQ's words."""
        user = identity.user
        if vhost not in self._state.vhosts:
            raise EntryRefusedError(f"vhost {vhost} not found")
        self._check_limits(user, vhost)
        scope = self._scope(identity, vhost)
        self._last_holder += 1
        self._residents[self._last_holder] = Resident(scope, subscriber)
        self._usage.opened(user, vhost, self._last_holder, subscriber)
        return VhostConnection(scope, self._last_holder)

    def change_rights(self, holder: int, identity: Identity) -> Scope:
        """Give the user of an open connection the rights of a new token. Raises EntryRefusedError."""
        resident = self._residents[holder]
        scope = self._scope(identity, resident.scope.vhost)
        self._residents[holder] = Resident(scope, resident.subscriber)
        _let_go(resident.scope)
        return scope

    def _scope(self, identity: Identity, vhost: str) -> Scope:
        """The scope of a user who may enter the virtual host. Raises EntryRefusedError."""
        user, rights = identity.user, identity.rights
        if not self._access.may_enter(identity, vhost):
            raise EntryRefusedError(f"access to vhost '{vhost}' refused for user '{user}'")
        scope = self._scopes.get((vhost, user, rights))
        if scope is None:
            scope = self._scopes[vhost, user, rights] = Scope(user, vhost, rights)
        return scope

    def _check_limits(self, user: str, vhost: str) -> None:
        if len(self._residents) >= self._largest:
            raise EntryRefusedError(f"connection refused: node connection limit ({self._largest}) is reached")
        limit = self._state.access.vhost(vhost).limits.get("max-connections")
        if limit is not None and self._usage.in_vhost(vhost) >= limit:
            raise EntryRefusedError(
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
            )
        known = self._state.access.users.get(user)
        limit = None if known is None else known.limits.get("max-connections")
        if limit is not None and self._usage.of_user(user)[0] >= limit:
            raise EntryRefusedError(
                f"connection refused for user '{user}': user connection limit ({limit}) is reached"
            )

    def check_channels(self, user: str) -> None:
        """A channel was opened. Raises EntryRefusedError where the user has too many channels now."""
        known = self._state.access.users.get(user)
        limit = None if known is None else known.limits.get("max-channels")
        self._usage.channels_changed()
        if limit is not None and self._usage.of_user(user)[1] > limit:
            raise EntryRefusedError(
                f"number of channels opened for user '{user}' has reached the maximum allowed user limit "
                f"of {limit}"
            )

    def leave(self, holder: int) -> None:
        """The connection is closed."""
        resident = self._residents.pop(holder, None)
        if resident is not None:
            self._usage.closed(resident.scope.user, resident.scope.vhost, holder)
            _let_go(resident.scope)

    # The next tick closes the connections of deleted users and virtual hosts. These methods run while a
    # command is applied, and closing a connection submits another one.

    def vhost_removed(self, vhost: str) -> None:
        self._removed = True

    def user_removed(self, user: str) -> None:
        self._removed = True

    def replaced(self) -> None:
        self._removed = True

    def tick(self, now: float) -> None:
        self._usage.tick(now)
        if not self._removed:
            return
        self._removed = False
        for scope, subscriber in list(self._residents.values()):
            if scope.vhost not in self._state.vhosts:
                subscriber.force_close(f"vhost '{scope.vhost}' is deleted")
            elif scope.rights is None and scope.user not in self._state.access.users:
                subscriber.force_close(f"user '{scope.user}' is deleted")


def _let_go(scope: Scope) -> None:
    """A connection uses the scope no more. Others may, and routes that the node remembers keep it."""
    if scope.rights is not None:
        scope.rights.let_go()

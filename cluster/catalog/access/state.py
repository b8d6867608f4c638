"""Users, permissions and limits: a replicated part of the catalog.

Pure and deterministic, like the rest of the catalog. `cluster.catalog.state` owns one `AccessState`,
carries out its `commands`, and puts its `to_plain` into the snapshot. Passwords are here as hashes only
(`cluster.config.passwords`): a node hashes a new password before it submits the command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from cluster.catalog.access.records import Permission, TopicPermission, User, VhostProperties
from node.refusal import NotFoundError, PreconditionFailedError
from node.session.permissions import Right

VHOST_LIMITS: Final = ("max-connections", "max-queues")
USER_LIMITS: Final = ("max-connections", "max-channels")

EVERYTHING: Final = ".*"
"""The pattern that is found in any name, without a search."""


class AccessState:
    """Users by name, permissions by (virtual host, user), and the properties of each virtual host.

    `version` grows with every change, on each node by itself: decisions of an older version do not count.
    `user_removed` is called with the name of every user that is deleted.
    """

    def __init__(self, user_removed: Callable[[str], None]) -> None:
        self.users: dict[str, User] = {}
        self.vhosts: dict[str, VhostProperties] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str], dict[str, TopicPermission]] = {}
        self.write_filters: set[tuple[str, str]] = set()
        """The permissions with a write filter. The set stays the same object."""
        self.founded = False
        """Whether the catalog has taken over the users of the configuration, which counts no more then."""
        self.decoy_key = ""
        """The key of SCRAM verifiers for names that have none, in hexadecimal: every node makes the same
        decoys. Empty until a hash with a verifier has come.
        """
        self.version = 0
        self._user_removed = user_removed
        self._carry_out: dict[str, Callable[..., Any]] = {
            "put_user": self._put_user,
            "set_password": self._set_password,
            "set_user_tags": self._set_user_tags,
            "delete_user": self._delete_user,
            "set_user_limit": self._set_user_limit,
            "set_permissions": self._set_permissions,
            "clear_permissions": self._clear_permissions,
            "set_topic_permissions": self._set_topic_permissions,
            "clear_topic_permissions": self._clear_topic_permissions,
            "set_vhost_limit": self._set_vhost_limit,
        }
        self.commands: Mapping[str, Callable[..., Any]] = {
            name: self._counted(name) for name in self._carry_out
        }

    def _counted(self, name: str) -> Callable[..., Any]:
        def changed(**arguments: Any) -> Any:
            value = self._carry_out[name](**arguments)
            self._changed()
            return value

        return changed

    def _changed(self) -> None:
        self.version += 1
        self.write_filters.clear()
        self.write_filters.update(key for key, one in self.permissions.items() if one.write_filter)

    # -- look-ups -------------------------------------------------------------------------------

    def user(self, name: str) -> User:
        """Raises NotFoundError."""
        try:
            return self.users[name]
        except KeyError:
            raise NotFoundError(f"no user '{name}'") from None

    def vhost(self, name: str) -> VhostProperties:
        """Raises NotFoundError."""
        try:
            return self.vhosts[name]
        except KeyError:
            raise NotFoundError(f"no virtual host '{name}'") from None

    # -- virtual hosts (cluster.catalog.state makes and deletes them) ---------------------------

    def put_vhost(self, name: str, changes: Mapping[str, Any], creator: str = "") -> None:
        """Add a virtual host, or change the properties of one; `creator` gets every permission in it."""
        if "tags" in changes:
            changes = {**changes, "tags": tuple(changes["tags"])}
        self.vhosts[name] = replace(self.vhosts.get(name, VhostProperties()), **changes)
        if creator in self.users:
            self._set_permissions(creator, name, EVERYTHING, EVERYTHING, EVERYTHING)
        self._changed()

    def forget_vhost(self, name: str) -> None:
        """Forget a deleted virtual host with all permissions in it."""
        self.vhosts.pop(name, None)
        for of_vhost in (self.permissions, self.topic_permissions):
            for key in [key for key in of_vhost if key[0] == name]:
                del of_vhost[key]
        self._changed()

    def _set_vhost_limit(self, vhost: str, limit: str, value: int | None) -> None:
        properties = self.vhost(vhost)
        limits = _limited(properties.limits, VHOST_LIMITS, limit, value)
        self.vhosts[vhost] = replace(properties, limits=limits)

    # -- users ----------------------------------------------------------------------------------

    def found(self, users: Mapping[str, Mapping[str, Any]], vhost: str) -> bool:
        """Take over the users of the configuration, with every permission in `vhost`.

        Returns False, and changes nothing, where that has been done before.
        """
        if self.founded:
            return False
        self.founded = True
        for name, user in users.items():
            self._put_user(name, user["password_hash"], user["tags"], user.get("decoy_key", ""))
            self._set_permissions(name, vhost, EVERYTHING, EVERYTHING, EVERYTHING)
        self._changed()
        return True

    def _put_user(self, user: str, password_hash: str, tags: Sequence[str], decoy_key: str = "") -> bool:
        """Add a user, or replace the password and tags of one. Returns whether the user is new."""
        self._keep_decoy_key(decoy_key)
        known = self.users.get(user)
        limits = {} if known is None else known.limits
        self.users[user] = User(user, password_hash, tuple(tags), limits)
        return known is None

    def _set_password(
        self, user: str, password_hash: str, decoy_key: str = "", replaces: str | None = None
    ) -> None:
        """`replaces`: change nothing where the user has another hash by now."""
        known = self.user(user)
        if replaces is None or known.password_hash == replaces:
            self.users[user] = replace(known, password_hash=password_hash)
            self._keep_decoy_key(decoy_key)

    def _keep_decoy_key(self, offered: str) -> None:
        """Keep the key of the first command that has one: with another key the decoys would change."""
        self.decoy_key = self.decoy_key or offered

    def _set_user_tags(self, user: str, tags: Sequence[str]) -> None:
        self.users[user] = replace(self.user(user), tags=tuple(tags))

    def _set_user_limit(self, user: str, limit: str, value: int | None) -> None:
        known = self.user(user)
        self.users[user] = replace(known, limits=_limited(known.limits, USER_LIMITS, limit, value))

    def _delete_user(self, user: str) -> None:
        self.user(user)
        del self.users[user]
        for of_user in (self.permissions, self.topic_permissions):
            for key in [key for key in of_user if key[1] == user]:
                del of_user[key]
        self._user_removed(user)

    # -- permissions ----------------------------------------------------------------------------

    def allows_every(self, user: str, vhost: str, right: Right, pattern: str) -> bool:
        """Whether the user has the right on every name that a pattern may match: on all names, or on those of
        the same pattern. Whether another pattern takes these names too is not worked out.
        """
        permission = self.permissions.get((vhost, user))
        return permission is not None and getattr(permission, right.value) in (EVERYTHING, pattern)

    def _set_permissions(
        self, user: str, vhost: str, configure: str, write: str, read: str, **filters: str
    ) -> bool:
        """Returns whether the user had no permissions in the virtual host. Filters that are not named stay:
        a client that knows none lifts none.
        """
        self.user(user)
        self.vhost(vhost)
        known = self.permissions.get((vhost, user), Permission("", "", ""))
        new = (vhost, user) not in self.permissions
        changed = replace(known, configure=configure, write=write, read=read, **filters)
        self.permissions[vhost, user] = changed
        return new

    def _clear_permissions(self, user: str, vhost: str) -> None:
        self.user(user)
        self.vhost(vhost)
        self.permissions.pop((vhost, user), None)

    def _set_topic_permissions(self, user: str, vhost: str, exchange: str, write: str, read: str) -> bool:
        """Returns whether the user had no topic permissions for the exchange."""
        self.user(user)
        self.vhost(vhost)
        of_user = self.topic_permissions.setdefault((vhost, user), {})
        new = exchange not in of_user
        of_user[exchange] = TopicPermission(write, read)
        return new

    def _clear_topic_permissions(self, user: str, vhost: str, exchange: str | None) -> None:
        """Clear the topic permissions for one exchange, or with None for all exchanges."""
        self.user(user)
        self.vhost(vhost)
        of_user = self.topic_permissions.get((vhost, user), {})
        if exchange is None:
            of_user.clear()
        else:
            of_user.pop(exchange, None)
        if not of_user:
            self.topic_permissions.pop((vhost, user), None)

    # -- snapshots ------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        return {
            "founded": self.founded,
            **({"decoy_key": self.decoy_key} if self.decoy_key else {}),
            "users": [asdict(user) for user in self.users.values()],
            "vhosts": {name: asdict(properties) for name, properties in self.vhosts.items()},
            "permissions": [[*key, one.to_plain()] for key, one in self.permissions.items()],
            "topic_permissions": [
                [*key, exchange, asdict(one)]
                for key, of_user in self.topic_permissions.items()
                for exchange, one in of_user.items()
            ],
        }

    def restore(self, plain: Mapping[str, Any] | None, vhosts: Sequence[str]) -> None:
        """Inverse of `to_plain`. `plain` is None in a snapshot of a release without users: all `vhosts` that
        the snapshot has get no properties.
        """
        if plain is None:
            plain = {**AccessState(self._user_removed).to_plain(), "vhosts": {name: {} for name in vhosts}}
        self.founded = plain["founded"]
        self.decoy_key = plain.get("decoy_key", "")
        users = [User(**{**user, "tags": tuple(user["tags"])}) for user in plain["users"]]
        self.users = {user.name: user for user in users}
        self.vhosts = {
            name: VhostProperties(**{**properties, "tags": tuple(properties.get("tags", ()))})
            for name, properties in plain["vhosts"].items()
        }
        self.permissions = {(vhost, user): Permission(**one) for vhost, user, one in plain["permissions"]}
        self.topic_permissions = {}
        for vhost, user, exchange, one in plain["topic_permissions"]:
            self.topic_permissions.setdefault((vhost, user), {})[exchange] = TopicPermission(**one)
        self._changed()


def _limited(limits: Mapping[str, int], known: Sequence[str], name: str, value: int | None) -> dict[str, int]:
    """The limits with one of them changed. As in RabbitMQ a negative value or None lifts the limit.

    Raises PreconditionFailedError for a limit that is not among `known`.
    """
    if name not in known:
        raise PreconditionFailedError(f"no limit '{name}': there are {', '.join(known)}")
    others = {one: current for one, current in limits.items() if one != name}
    return others if value is None or value < 0 else {**others, name: value}

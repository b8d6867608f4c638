"""Users and permissions as a node uses them: logins, decisions, and changes that go to the catalog.

Pure but for its callbacks: hashing is slow on purpose, so a `Hasher` does it and answers later. The
decisions follow RabbitMQ's access control table; `Refusal`s carry its texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster.catalog.access.password_checks import Hasher, PasswordChecks
from cluster.catalog.access.patterns import Pattern, compiled, expanded, mistake_in, permits
from cluster.catalog.access.records import ADMINISTRATOR
from cluster.catalog.access.state import AccessState
from cluster.config.passwords import parse_hash
from node.refusal import AccessRefusedError, PreconditionFailedError, Refusal, ResourceError
from node.session.gate import origin_of
from node.session.permissions import Right
from node.session.ports import Authenticated, Identity

REMEMBERED_DECISIONS: Final = 16_384
"""Decisions that are remembered. Clients choose the names, so the number of decisions must be bounded."""

DEFAULT_EXCHANGE_ALIAS: Final = "amq.default"
"""The name of the default exchange for patterns: its own name is empty."""

EVERY_NAME: Final = ".*"
"""The pattern that is found in any name, without a search."""

Answer = Callable[[Any, Refusal | None], None]
Submit = Callable[[str, dict[str, Any], Answer], None]


class Access:
    """See the module's docstring. `loopback_users` may log in from this machine only."""

    def __init__(
        self, state: AccessState, submit: Submit, hasher: Hasher, loopback_users: Sequence[str] = ("guest",)
    ) -> None:
        self.state = state
        self._submit = submit
        self._hasher = hasher
        self._loopback_users = frozenset(loopback_users)
        self._checks = PasswordChecks(hasher)
        self._decided: dict[tuple[str, str, Right, str], bool] = {}
        self._topics: dict[tuple[str, str, str, Right], Pattern | None] = {}
        self._version = -1

    # -- logins ---------------------------------------------------------------------------------

    def authenticate(self, user: str, password: str, remote: str, answer: Authenticated) -> None:
        """Check a name and a password; `remote` is the client's address.

        Answers with the user's identity, or with None and the reason of the refusal for the log. The answer
        comes at once where the password was right before, in a later turn where the password must be hashed.
        """
        known = self.state.users.get(user)
        stored = known.password_hash if known is not None else None

        def checked(right: bool | None) -> None:
            current = self.state.users.get(user)
            if right is None:
                answer(
                    None,
                    f"user '{user}' - the password could not be checked now: too many log-ins wait, or there "
                    "is not enough memory",
                )
            elif not right or current is None or current.password_hash != stored:
                answer(None, f"user '{user}' - invalid credentials")
            else:
                self.admit(user, remote, answer)

        self._forget_outdated()
        if password:
            self._checks.check(user, stored or None, password, origin_of(remote), checked)
        else:
            answer(None, f"user '{user}' attempted to log in with a blank password")

    def recognises(self, user: str, password: str) -> bool:
        """Whether `authenticate` answers at once, as the password was right before."""
        self._forget_outdated()
        known = self.state.users.get(user)
        return known is not None and self._checks.recognises(user, known.password_hash, password)

    def admit(self, user: str, remote: str, answer: Authenticated) -> None:
        """Let a user in whose identity is proved, by a certificate or by password. Answers at once."""
        known = self.state.users.get(user)
        if known is None:
            answer(None, f"user '{user}' - invalid credentials")
        elif user in self._loopback_users and not is_loopback(remote):
            answer(None, f"user '{user}' can only connect via localhost")
        else:
            answer(Identity(user, known.tags), "")

    def tags(self, user: str) -> tuple[str, ...]:
        """The user's tags now; none for a user that is gone."""
        known = self.state.users.get(user)
        return () if known is None else known.tags

    # -- decisions ------------------------------------------------------------------------------

    def may_enter(self, user: str, vhost: str) -> bool:
        """Whether the virtual host exists and the user has permissions in it."""
        return vhost in self.state.vhosts and (vhost, user) in self.state.permissions

    def authorise(self, user: str, vhost: str, right: Right, name: str) -> bool:
        """Whether the user has the right on a queue or an exchange of this name."""
        self._forget_outdated()
        key = (user, vhost, right, name)
        decided = self._decided.get(key)
        if decided is None:
            permission = self.state.permissions.get((vhost, user))
            pattern = None if permission is None else getattr(permission, right.value)
            decided = pattern == EVERY_NAME or (pattern is not None and permits(compiled(pattern), name))
            if len(self._decided) >= REMEMBERED_DECISIONS:
                self._decided.clear()
            self._decided[key] = decided
        return decided

    def authorise_topic(self, user: str, vhost: str, right: Right, exchange: str, key: str) -> bool:
        """Whether the user may publish (write) or bind (read) with the key at the topic exchange.

        A user without topic permissions for the exchange may do so with any key.
        """
        self._forget_outdated()
        at = (user, vhost, exchange, right)
        if at not in self._topics:
            if len(self._topics) >= REMEMBERED_DECISIONS:
                self._topics.clear()
            permission = self.state.topic_permissions.get((vhost, user), {}).get(exchange)
            if permission is None:
                self._topics[at] = None
            else:
                self._topics[at] = compiled(expanded(getattr(permission, right.value), user, vhost))
        pattern = self._topics[at]
        return pattern is None or permits(pattern, key)

    def _forget_outdated(self) -> None:
        if self._version != self.state.version:
            self._version = self.state.version
            self._decided.clear()
            self._topics.clear()
            self._checks.remembered.forget_changed(self.state.users)

    def check_exchange(self, user: str, vhost: str, right: Right, name: str) -> None:
        """Raises AccessRefusedError."""
        self._check(user, vhost, right, "exchange", name or DEFAULT_EXCHANGE_ALIAS)

    def check_queue(self, user: str, vhost: str, right: Right, name: str) -> None:
        """Raises AccessRefusedError."""
        self._check(user, vhost, right, "queue", name)

    def _check(self, user: str, vhost: str, right: Right, kind: str, name: str) -> None:
        if not self.authorise(user, vhost, right, name):
            raise AccessRefusedError(
                f"{right.value} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'"
            )

    def check_topic(self, user: str, vhost: str, right: Right, exchange: str, key: str) -> None:
        """Raises AccessRefusedError."""
        if not self.authorise_topic(user, vhost, right, exchange, key):
            raise AccessRefusedError(
                f"{right.value} access to topic '{key}' in exchange topic '{exchange}' in vhost '{vhost}' "
                f"refused for user '{user}'"
            )

    # -- changes --------------------------------------------------------------------------------
    #
    # Each answers (value, None) once the change is visible on every node, or (None, refusal).

    def put_vhost(self, vhost: str, answer: Answer, creator: str = "", **changes: Any) -> None:
        """Add a virtual host, or change its `description`, `tags`, `default_queue_type`.

        Answers whether the virtual host is new. The user `creator` gets every permission in a new one.
        """
        if not _named("virtual host", vhost, answer):
            return
        self._submit("declare_vhost", {"vhost": vhost, "creator": creator, **changes}, answer)

    def delete_vhost(self, vhost: str, answer: Answer) -> None:
        """Delete a virtual host with everything in it. All nodes close its connections."""
        self._submit("delete_vhost", {"vhost": vhost}, answer)

    def set_vhost_limit(self, vhost: str, limit: str, value: int | None, answer: Answer) -> None:
        """Set `max-connections` or `max-queues`; a negative value or None lifts the limit."""
        self._submit("set_vhost_limit", {"vhost": vhost, "limit": limit, "value": value}, answer)

    def put_user(
        self,
        user: str,
        answer: Answer,
        *,
        password: str | None = None,
        password_hash: str = "",
        tags: Sequence[str] = (),
    ) -> None:
        """Add a user, or replace the password and tags of one that exists. Answers whether the user is new.

        `password_hash` is a result of `passwords.imported_hash`. A user with neither password nor hash
        cannot log in by password.
        """
        if not _named("user", user, answer):
            return
        rest = {"user": user, "tags": list(tags)}
        self._with_hash("put_user", rest, password, password_hash, answer)

    def set_password(
        self, user: str, answer: Answer, *, password: str | None = None, password_hash: str = ""
    ) -> None:
        """Give a user another password, or none. Connections of the user that are open stay open."""
        self._with_hash("set_password", {"user": user}, password, password_hash, answer)

    def _with_hash(
        self, command: str, rest: dict[str, Any], password: str | None, password_hash: str, answer: Answer
    ) -> None:
        if password == "":
            answer(None, PreconditionFailedError("a password must not be empty"))
        elif password is not None:

            def hashed(made: str | None) -> None:
                if made is None:
                    answer(None, ResourceError("the password could not be hashed now: not enough memory"))
                else:
                    self._submit(command, {**rest, "password_hash": made}, answer)

            self._hasher.hash(password, hashed)
        elif password_hash and not _is_hash(password_hash):
            answer(None, PreconditionFailedError("the password hash is not of a known form"))
        else:
            self._submit(command, {**rest, "password_hash": password_hash}, answer)

    def set_user_tags(self, user: str, tags: Sequence[str], answer: Answer) -> None:
        self._submit("set_user_tags", {"user": user, "tags": list(tags)}, answer)

    def set_user_limit(self, user: str, limit: str, value: int | None, answer: Answer) -> None:
        """Set `max-connections` or `max-channels`; a negative value or None lifts the limit."""
        self._submit("set_user_limit", {"user": user, "limit": limit, "value": value}, answer)

    def delete_user(self, user: str, answer: Answer) -> None:
        """Delete a user with all permissions. All nodes close the user's connections."""
        self._submit("delete_user", {"user": user}, answer)

    def set_permissions(
        self, user: str, vhost: str, configure: str, write: str, read: str, answer: Answer
    ) -> None:
        """Replace the user's permissions in a virtual host. Answers whether the user had none there.

        An empty pattern permits nothing but an empty name.
        """
        if _patterns_valid([configure, write, read], answer):
            self._submit(
                "set_permissions",
                {"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read},
                answer,
            )

    def clear_permissions(self, user: str, vhost: str, answer: Answer) -> None:
        self._submit("clear_permissions", {"user": user, "vhost": vhost}, answer)

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str, answer: Answer
    ) -> None:
        """Replace the user's topic permissions for an exchange. Answers whether the user had none.

        `{username}` and `{vhost}` in a pattern stand for the names of the user and the virtual host.
        """
        if _patterns_valid([write, read], answer):
            self._submit(
                "set_topic_permissions",
                {"user": user, "vhost": vhost, "exchange": exchange, "write": write, "read": read},
                answer,
            )

    def clear_topic_permissions(self, user: str, vhost: str, exchange: str | None, answer: Answer) -> None:
        """Clear the topic permissions for one exchange, or with None for all exchanges."""
        self._submit("clear_topic_permissions", {"user": user, "vhost": vhost, "exchange": exchange}, answer)


def is_loopback(remote: str) -> bool:
    """Whether an address is of this machine's loopback interface, IPv4 addresses written as IPv6 included."""
    address = remote.removeprefix("::ffff:")
    return address == "::1" or address.startswith("127.")


def is_administrator(tags: Sequence[str]) -> bool:
    return ADMINISTRATOR in tags


def _patterns_valid(patterns: Sequence[str], answer: Answer) -> bool:
    for pattern in patterns:
        mistake = mistake_in(pattern)
        if mistake is not None:
            answer(None, PreconditionFailedError(mistake))
            return False
    return True


def _named(kind: str, name: str, answer: Answer) -> bool:
    if 0 < len(name.encode("utf-8", "surrogateescape")) <= 255:
        return True
    answer(None, PreconditionFailedError(f"the name of a {kind} has 1 to 255 octets"))
    return False


def _is_hash(text: str) -> bool:
    try:
        parse_hash(text)
    except ValueError:
        return False
    return True

"""Users and permissions as a node uses them: logins, decisions, and changes that go to the catalog.

Pure but for its callbacks: hashing is slow on purpose, so a `Hasher` does it and answers later. The
decisions follow RabbitMQ's access control table; `Refusal`s carry its texts.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cluster.catalog.access.entitlements import UNCHANGED, Entitlements
from cluster.catalog.access.password_checks import Hasher, PasswordChecks
from cluster.catalog.access.patterns import Pattern, compiled, expanded, mistake_in, permits
from cluster.catalog.access.records import NO_RULES, LoginRules, User
from cluster.catalog.access.state import EVERYTHING, AccessState
from cluster.catalog.access.tokens import TokenChecks, TokenError
from cluster.config.passwords import SCRYPT_PREFIX, parse_hash, verifier_in, with_verifier, without_verifier
from node.message.run import Run
from node.ranges.range_set import Range
from node.refusal import AccessRefusedError, PreconditionFailedError, Refusal, ResourceError
from node.session.gate import origin_of
from node.session.logins import AnonymousLogin, Login, PasswordLogin, ScramLogin, TokenLogin
from node.session.permissions import DEFAULT_EXCHANGE_ALIAS, Right, Scope
from node.session.ports import Authenticated, Identity
from node.wire.scram import ScramExchange, Verifier

REMEMBERED_DECISIONS: Final = 16_384
"""Decisions that are remembered. Clients choose the names, so the number of decisions must be bounded."""

NONCE_BYTES: Final = 18
"""Random octets in the server's nonce of SCRAM."""

Answer = Callable[[Any, Refusal | None], None]
Submit = Callable[[str, dict[str, Any], Answer], None]


def _by_none() -> bool:
    return False


class Access:
    """See the module's docstring."""

    def __init__(
        self,
        state: AccessState,
        submit: Submit,
        hasher: Hasher,
        rules: LoginRules = NO_RULES,
        verifiers_read: Callable[[], bool] = _by_none,
        tokens: TokenChecks | None = None,
        filters_read: Callable[[], bool] = _by_none,
    ) -> None:
        """`verifiers_read`: whether every member reads hashes with SCRAM verifiers. `tokens`: None where the
        configuration takes none. `filters_read`: whether every member reads filters in permissions.
        """
        self.state = state
        self._submit = submit
        self._hasher = hasher
        self._rules = rules
        self._verifiers_read = verifiers_read
        self._tokens = tokens
        self._exchanges = 0
        self._learnt: dict[str, str] = {}
        """Users with the hashes that `_learn_verifier` is about to extend, or can do no more for."""
        self._checks = PasswordChecks(hasher)
        self._decided: dict[tuple[str, str, Right, str], bool] = {}
        self._topics: dict[tuple[str, str, str, Right], Pattern | None] = {}
        self._version = -1
        self.entitlements = Entitlements(state, filters_read)
        self.write_filters = state.write_filters

    # -- logins ---------------------------------------------------------------------------------

    def log_in(self, login: Login, remote: str, answer: Authenticated) -> None:
        """Check a client's login of any kind; `remote` is its address. Answers as `authenticate`."""
        if isinstance(login, PasswordLogin):
            self.authenticate(login.user, login.password, remote, answer)
        elif isinstance(login, TokenLogin):
            self.admit_token(login.token, remote, answer)
        elif isinstance(login, AnonymousLogin):
            self.admit_anonymous(remote, answer)
        elif isinstance(login, ScramLogin):
            self.admit_verified(login.user, login.verifier, remote, answer)
        else:
            self.admit(login.user, remote, answer)

    def authenticate(self, user: str, password: str, remote: str, answer: Authenticated) -> None:
        """Check a name and a password; `remote` is the client's address.

        Answers with the user's identity, or with None and the reason of the refusal for the log. The answer
        comes at once where the password was right before, in a later turn where the password must be hashed.

        A token may stand for the password. It names the user, and its answer comes at once.
        """
        if self._tokens is not None and self._tokens.recognises(password):
            self.admit_token(password, remote, answer)
            return
        known = self.state.users.get(user)
        stored = without_verifier(known.password_hash) if known is not None else None

        def checked(right: bool | None) -> None:
            current = self.state.users.get(user)
            if right is None:
                answer(
                    None,
                    f"user '{user}' - the password could not be checked now: too many log-ins wait, or there "
                    "is not enough memory",
                )
            elif not right or current is None or without_verifier(current.password_hash) != stored:
                answer(None, f"user '{user}' - invalid credentials")
            else:
                self._learn_verifier(current, password)
                self.admit(user, remote, answer)

        self._forget_outdated()
        if password:
            self._checks.check(user, stored or None, password, origin_of(remote), checked)
        else:
            answer(None, f"user '{user}' attempted to log in with a blank password")

    def _learn_verifier(self, user: User, password: str) -> None:
        """Give a user a SCRAM verifier whose password was set when none was kept, now that it is known to be
        right. Once for each hash: some passwords cannot have a verifier. A hash of RabbitMQ stays as it is.
        """
        stored = user.password_hash
        if (
            not self._keeps_verifiers
            or not stored.startswith(SCRYPT_PREFIX)
            or verifier_in(stored) is not None
            or self._learnt.get(user.name) == stored
        ):
            return
        self._learnt[user.name] = stored

        def told(_: Any, refusal: Refusal | None) -> None:
            if refusal is not None:
                self._learnt.pop(user.name, None)

        def hashed(made: str | None) -> None:
            if made is None or not self._keeps_verifiers:
                self._learnt.pop(user.name, None)
            elif verifier_in(made) is not None:
                kept = self.kept(with_verifier(stored, made))
                self._submit("set_password", {"user": user.name, "replaces": stored, **kept}, told)

        self._hasher.hash(password, True, hashed)

    def recognises(self, user: str, password: str) -> bool:
        """Whether `authenticate` answers at once, as the password was right before, or is a token."""
        if self._tokens is not None and self._tokens.recognises(password):
            return True
        self._forget_outdated()
        known = self.state.users.get(user)
        return known is not None and self._checks.recognises(
            user, without_verifier(known.password_hash), password
        )

    def admit(self, user: str, remote: str, answer: Authenticated) -> None:
        """Let a user in whose identity is proved, by a certificate or by password. Answers at once."""
        known = self.state.users.get(user)
        if known is None:
            answer(None, f"user '{user}' - invalid credentials")
        else:
            self._let_in(Identity(user, known.tags), remote, answer)

    def _let_in(self, identity: Identity, remote: str, answer: Authenticated) -> None:
        if identity.user in self._rules.loopback_users and not is_loopback(remote):
            answer(None, f"user '{identity.user}' can only connect via localhost")
        else:
            answer(identity, "")

    def admit_token(self, token: str, remote: str, answer: Authenticated) -> None:
        """Let a user in by an access token, which names the user and grants the rights. Answers at once."""
        if self._tokens is None:
            answer(None, "the configuration takes no tokens")
            return
        try:
            identity = self._tokens.identity(token)
        except TokenError as error:
            answer(None, str(error))
        else:
            self._let_in(identity, remote, answer)

    def admit_anonymous(self, remote: str, answer: Authenticated) -> None:
        """Let an anonymous client in, if the configuration names a user for such clients. Answers at once."""
        if self._rules.anonymous_user:
            self.admit(self._rules.anonymous_user, remote, answer)
        else:
            answer(None, "no user is configured for anonymous clients")

    @property
    def offers_scram(self) -> bool:
        """Whether there are users with SCRAM verifiers, and the configuration lets them log in by SCRAM."""
        return self._rules.scram and bool(self.state.decoy_key)

    def begin_scram(self) -> ScramExchange:
        """Begin an exchange. The key of this process makes its nonce, so that no client foresees it."""
        self._exchanges += 1
        made = hmac.digest(self._hasher.key, b"nonce %d" % self._exchanges, "sha256")
        return ScramExchange(self._verifier_of, b64encode(made[:NONCE_BYTES]))

    def _verifier_of(self, user: str) -> Verifier:
        """The user's verifier, or a decoy. A decoy is made in any case, so that both take as long."""
        decoy = Verifier.decoy(bytes.fromhex(self.state.decoy_key) or self._hasher.key, user)
        known = self.state.users.get(user)
        return (None if known is None else verifier_in(known.password_hash)) or decoy

    def admit_verified(self, user: str, verifier: Verifier, remote: str, answer: Authenticated) -> None:
        """Let a user in who has proved the password of this verifier, if it still is the user's. Answers at
        once.
        """
        known = self.state.users.get(user)
        if known is None or verifier_in(known.password_hash) != verifier:
            answer(None, f"user '{user}' - invalid credentials")
        else:
            self.admit(user, remote, answer)

    def tags(self, user: str) -> tuple[str, ...]:
        """The user's tags now; none for a user that is gone."""
        known = self.state.users.get(user)
        return () if known is None else known.tags

    # -- decisions ------------------------------------------------------------------------------

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        """Whether the virtual host exists, and the user, or the user's token, has permissions in it."""
        if identity.rights is not None:
            return vhost in self.state.vhosts and identity.rights.enters(vhost)
        return vhost in self.state.vhosts and (vhost, identity.user) in self.state.permissions

    def authorise(self, user: str, vhost: str, right: Right, name: str) -> bool:
        """Whether the user has the right on a queue or an exchange of this name."""
        self._forget_outdated()
        key = (user, vhost, right, name)
        decided = self._decided.get(key)
        if decided is None:
            permission = self.state.permissions.get((vhost, user))
            pattern = None if permission is None else getattr(permission, right.value)
            decided = pattern == EVERYTHING or (pattern is not None and permits(compiled(pattern), name))
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
            users = self.state.users
            self._learnt = {name: stored for name, stored in self._learnt.items() if name in users}

    # Sessions ask these: a token's rights count in the place of the catalog's.

    def check_exchange(self, scope: Scope, right: Right, name: str) -> None:
        """Raises AccessRefusedError."""
        self._check(scope, right, "exchange", name or DEFAULT_EXCHANGE_ALIAS)

    def check_queue(self, scope: Scope, right: Right, name: str) -> None:
        """Raises AccessRefusedError."""
        self._check(scope, right, "queue", name)

    def _check(self, scope: Scope, right: Right, kind: str, name: str) -> None:
        user, vhost, rights = scope.user, scope.vhost, scope.rights
        if rights is None:
            allowed = self.authorise(user, vhost, right, name)
        else:
            allowed = rights.allows(vhost, right, name)
        if not allowed:
            raise AccessRefusedError(
                f"{right.value} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'"
            )

    def check_pattern(self, scope: Scope, right: Right, pattern: str) -> None:
        """Raises AccessRefusedError."""
        if scope.rights is None:
            allowed = self.state.allows_every(scope.user, scope.vhost, right, pattern)
        else:
            allowed = scope.rights.allows_every(scope.vhost, right)
        if not allowed:
            where = f"'{pattern}' in vhost '{scope.vhost}' refused for user '{scope.user}'"
            how = f"it takes the permission '{EVERYTHING}' or the same pattern"
            raise AccessRefusedError(f"{right.value} access to queues {where}: {how}")

    def check_topic(self, scope: Scope, right: Right, exchange: str, key: str) -> None:
        """Raises AccessRefusedError."""
        user, vhost, rights = scope.user, scope.vhost, scope.rights
        if rights is None:
            allowed = self.authorise_topic(user, vhost, right, exchange, key)
        else:
            allowed = rights.allows_topic(vhost, right, exchange, key)
        if not allowed:
            raise AccessRefusedError(
                f"{right.value} access to topic '{key}' in exchange topic '{exchange}' in vhost '{vhost}' "
                f"refused for user '{user}'"
            )

    def read_filter(self, scope: Scope) -> bytes:
        """See `node.session.permissions.Permissions`."""
        return self.entitlements.read_filter(scope)

    def write_filter(self, scope: Scope) -> bytes:
        """See `node.session.permissions.Permissions`."""
        return self.entitlements.write_filter(scope)

    def kept_out(self, scope: Scope, run: Run) -> list[Range]:
        """See `node.session.permissions.Permissions`."""
        return self.entitlements.kept_out(scope, run)

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
                    self._submit(command, {**rest, **self.kept(made)}, answer)

            self._hasher.hash(password, self._keeps_verifiers, hashed)
        elif password_hash and not _is_hash(password_hash):
            answer(None, PreconditionFailedError("the password hash is not of a known form"))
        else:
            self._submit(command, {**rest, **self.kept(password_hash)}, answer)

    @property
    def _keeps_verifiers(self) -> bool:
        return self._rules.scram and self._verifiers_read()

    def kept(self, password_hash: str) -> dict[str, str]:
        """The arguments of a command that keeps this hash. The hash loses its verifier where the
        configuration or a member of the cluster takes none. A verifier comes with a key for decoys.
        """
        if verifier_in(password_hash) is None:
            return {"password_hash": password_hash}
        if not self._keeps_verifiers:
            return {"password_hash": without_verifier(password_hash)}
        decoy_key = hmac.digest(self._hasher.key, b"decoys", "sha256").hex()
        return {"password_hash": password_hash, "decoy_key": decoy_key}

    def set_user_tags(self, user: str, tags: Sequence[str], answer: Answer) -> None:
        self._submit("set_user_tags", {"user": user, "tags": list(tags)}, answer)

    def set_user_limit(self, user: str, limit: str, value: int | None, answer: Answer) -> None:
        """Set `max-connections` or `max-channels`; a negative value or None lifts the limit."""
        self._submit("set_user_limit", {"user": user, "limit": limit, "value": value}, answer)

    def delete_user(self, user: str, answer: Answer) -> None:
        """Delete a user with all permissions. All nodes close the user's connections."""
        self._submit("delete_user", {"user": user}, answer)

    def set_permissions(
        self,
        user: str,
        vhost: str,
        configure: str,
        write: str,
        read: str,
        answer: Answer,
        filters: Mapping[str, str] = UNCHANGED,
    ) -> None:
        """Replace the user's permissions in a virtual host. Answers whether the user had none there.

        An empty pattern permits nothing but an empty name. `filters` may have `read_filter` and
        `write_filter`: one that is empty is lifted, and one that is not there stays.
        """
        mistake = self.entitlements.mistake_in(filters)
        if mistake is not None:
            answer(None, PreconditionFailedError(mistake))
        elif _patterns_valid([configure, write, read], answer):
            told = filters if self.entitlements.read_everywhere() else UNCHANGED
            self._submit(
                "set_permissions",
                {"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read, **told},
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

"""The rights in the scopes of an access token, as RabbitMQ writes and reads them.

    AUDIENCE.configure:VHOST/NAME       AUDIENCE.tag:TAG
    AUDIENCE.write:VHOST/NAME/KEY
    AUDIENCE.read:VHOST/NAME/KEY

VHOST, NAME and KEY are percent-encoded, and `*` stands for any characters, none included. KEY is for topic
exchanges, at which a scope without KEY grants no routing key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from node.session.permissions import Right

MOST_SCOPES: Final = 1000
"""Scopes of one token that are for the cluster: a check of rights may look at each of them."""

REMEMBERED: Final = 1024
"""Decisions, and exchanges, that are remembered for one set of rights: clients choose the names."""

TAG_PREFIX: Final = "tag:"
_RIGHTS: Final = {f"{right.value}:": right for right in Right}


class TooManyScopesError(Exception):
    """The token has more than `MOST_SCOPES` scopes for the cluster."""


class Wildcard:
    """A pattern in which `*` stands for any characters. A match takes a time that is linear in the name: the
    parts between the stars are looked for from the left, without a second try.
    """

    __slots__ = ("_first", "_last", "_middle", "_whole")

    def __init__(self, pattern: str) -> None:
        # A star that is percent-encoded is a character.
        parts = [unquote(part, errors="surrogateescape") for part in pattern.split("*")]
        self._whole = len(parts) == 1
        self._first, self._last = parts[0], parts[-1]
        self._middle = tuple(part for part in parts[1:-1] if part)

    @property
    def every(self) -> bool:
        """Whether all names match."""
        return not (self._whole or self._first or self._middle or self._last)

    def matches(self, name: str) -> bool:
        """Whether the pattern is the whole name."""
        if self._whole:
            return name == self._first
        at, end = len(self._first), len(name) - len(self._last)
        if at > end or not name.startswith(self._first) or not name.endswith(self._last):
            return False
        for part in self._middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


class TokenGrant(NamedTuple):
    """One right, with the patterns of a scope. `key` is None in a scope without a routing key."""

    right: Right
    vhost: Wildcard
    name: Wildcard
    key: Wildcard | None


class TokenRights:
    """Implements `node.session.permissions.GrantedRights`.

    Routes that the node remembers keep the rights of clients that are long gone. So what is made of the
    scopes is made when it is asked for, and dropped when a client goes.
    """

    __slots__ = ("_decided", "_grants", "_keys", "_scopes")

    def __init__(self, scopes: Iterable[str]) -> None:
        """`scopes` are without the audience, each of the form that `grant_in` reads."""
        self._scopes = tuple(sorted(set(scopes)))
        self.let_go()

    def let_go(self) -> None:
        self._grants: list[TokenGrant] | None = None
        self._decided: dict[tuple[str, Right, str], bool] = {}
        self._keys: dict[tuple[str, Right, str], list[Wildcard]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenRights) and self._scopes == other._scopes

    def __hash__(self) -> int:
        return hash(self._scopes)

    def _all(self) -> list[TokenGrant]:
        if self._grants is None:
            self._grants = [one for one in map(grant_in, self._scopes) if one is not None]
        return self._grants

    def enters(self, vhost: str) -> bool:
        return any(one.vhost.matches(vhost) for one in self._all())

    def allows(self, vhost: str, right: Right, name: str) -> bool:
        asked = (vhost, right, name)
        decided = self._decided.get(asked)
        if decided is None:
            decided = any(
                one.right is right and one.name.matches(name) and one.vhost.matches(vhost)
                for one in self._all()
            )
            if len(self._decided) >= REMEMBERED:
                self._decided.clear()
            self._decided[asked] = decided
        return decided

    def allows_every(self, vhost: str, right: Right) -> bool:
        return any(one.right is right and one.name.every and one.vhost.matches(vhost) for one in self._all())

    def allows_topic(self, vhost: str, right: Right, exchange: str, key: str) -> bool:
        at = (vhost, right, exchange)
        patterns = self._keys.get(at)
        if patterns is None:
            patterns = [
                one.key
                for one in self._all()
                if one.key is not None
                and one.right is right
                and one.name.matches(exchange)
                and one.vhost.matches(vhost)
            ]
            if len(self._keys) >= REMEMBERED:
                self._keys.clear()
            self._keys[at] = patterns
        return any(pattern.matches(key) for pattern in patterns)


def rights_and_tags(scopes: Iterable[str], audience: str) -> tuple[TokenRights, tuple[str, ...]]:
    """The rights and the tags in scopes. Scopes for others, or of another form, grant nothing.

    Raises TooManyScopesError.
    """
    prefix = f"{audience}."
    own = {scope.removeprefix(prefix) for scope in scopes if scope.startswith(prefix)}
    if len(own) > MOST_SCOPES:
        raise TooManyScopesError
    tags = sorted(scope.removeprefix(TAG_PREFIX) for scope in own if scope.startswith(TAG_PREFIX))
    rights = TokenRights(scope for scope in own if grant_in(scope) is not None)
    return rights, tuple(tag for tag in tags if tag)


def grant_in(scope: str) -> TokenGrant | None:
    """The right in a scope without its audience; None for a scope of another form."""
    for prefix, right in _RIGHTS.items():
        if scope.startswith(prefix):
            parts = scope.removeprefix(prefix).split("/")
            if len(parts) in (2, 3):
                key = Wildcard(parts[2]) if len(parts) == 3 else None
                return TokenGrant(right, Wildcard(parts[0]), Wildcard(parts[1]), key)
    return None

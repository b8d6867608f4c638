"""The catalog's records of users, their permissions, and virtual hosts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final

ADMINISTRATOR: Final = "administrator"

PATTERNS: Final = ("configure", "write", "read")


@dataclass(frozen=True, slots=True)
class LoginRules:
    """The configuration's rules for log-ins."""

    loopback_users: tuple[str, ...] = ("guest",)
    """Users who may log in from the node's own machine only."""
    anonymous_user: str = ""
    """The user as whom anonymous clients come in; empty: none may."""
    scram: bool = False
    """Whether passwords that are set get SCRAM verifiers, by which their users may log in."""


NO_RULES: Final = LoginRules()
"""The rules of a configuration that states none."""


@dataclass(frozen=True, slots=True)
class User:
    """A user. `password_hash` is empty for a user that has no password and cannot log in with one."""

    name: str
    password_hash: str = field(repr=False)
    tags: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Permission:
    """A user's permissions in a virtual host: patterns that names of resources are searched for, and
    conditions of messages (`node.expressions.condition`) that the user may get and publish; empty for all.
    """

    configure: str
    write: str
    read: str
    read_filter: str = ""
    write_filter: str = ""

    def to_plain(self) -> dict[str, str]:
        """The fields of a snapshot. A release without filters reads no fields for them."""
        return {name: value for name, value in asdict(self).items() if value or name in PATTERNS}


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """Patterns for the routing keys with which a user may publish (`write`) to a topic exchange, and bind
    (`read`).
    """

    write: str
    read: str


@dataclass(frozen=True, slots=True)
class VhostProperties:
    """The properties of a virtual host, apart from its queues and exchanges."""

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    limits: dict[str, int] = field(default_factory=dict)

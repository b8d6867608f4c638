"""Policies: settings that queues and exchanges get by their names, as in RabbitMQ.

Policies are in the catalog; each node works out for itself which of them applies to a queue or exchange. Of
the policies whose pattern is found in the name, the one with the highest priority applies; of several such
policies the first by name. One operator policy, chosen in the same way, applies too, and bounds the settings
of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cluster.catalog.access.patterns import compiled, permits
from cluster.catalog.placement import CLASSIC, QUORUM, STREAM
from cluster.catalog.policy_settings import (
    ALTERNATE_EXCHANGE,
    KEYS_OF_STREAMS,
    arguments_with,
    joined_definition,
)
from node.queue.features.arguments import read_arguments
from node.queue.settings import QueueSettings
from node.refusal import NotFoundError
from node.routing.exchange import Exchanges

REMEMBERED_NAMES: Final = 65_536
"""Names whose policies are remembered."""


class ResourceKind(StrEnum):
    """The kinds of objects to which a policy may apply; `apply-to` names them."""

    EXCHANGE = "exchanges"
    CLASSIC_QUEUE = "classic_queues"
    QUORUM_QUEUE = "quorum_queues"
    STREAM = "streams"


KIND_OF_TYPE: Final = {
    QUORUM: ResourceKind.QUORUM_QUEUE,
    CLASSIC: ResourceKind.CLASSIC_QUEUE,
    STREAM: ResourceKind.STREAM,
}
"""The kinds of queues by their types."""


_KINDS: Final[dict[str, frozenset[ResourceKind]]] = {
    "all": frozenset(ResourceKind),
    "queues": frozenset(KIND_OF_TYPE.values()),
    **{kind.value: frozenset({kind}) for kind in ResourceKind},
}


@dataclass(frozen=True, slots=True)
class Policy:
    """`pattern` is searched for in names; `definition` are settings without their `x-`."""

    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: dict[str, Any]

    def applies_to(self, kind: ResourceKind, name: str) -> bool:
        """Whether the policy applies to an object of this kind and name."""
        return kind in _KINDS.get(self.apply_to, ()) and permits(compiled(self.pattern), name)


class AppliedPolicies(NamedTuple):
    """The names of the policies that apply to a queue or exchange, and their definitions joined."""

    policy: str | None
    operator_policy: str | None
    definition: dict[str, Any]


@dataclass(slots=True)
class VhostPolicies:
    """Policies by name; `operator` likewise."""

    user: dict[str, Policy] = field(default_factory=dict)
    operator: dict[str, Policy] = field(default_factory=dict)

    def of(self, *, operator: bool) -> dict[str, Policy]:
        return self.operator if operator else self.user


class Policies:
    """The policies of all virtual hosts, a part of the catalog's state, and the settings that they give."""

    def __init__(self, changed: Callable[[str], None], check_vhost: Callable[[str], object]) -> None:
        """`changed` is called with the virtual host whose policies have changed. `check_vhost` raises
        NotFoundError for a virtual host that does not exist.
        """
        self.commands: dict[str, Callable[..., Any]] = {
            "put_policy": self._put,
            "delete_policy": self._delete,
        }
        self._vhosts: dict[str, VhostPolicies] = {}
        self._changed = changed
        self._check_vhost = check_vhost
        self._applied: dict[tuple[str, ResourceKind, str], AppliedPolicies] = {}

    # -- commands -------------------------------------------------------------------------------

    def _put(self, vhost: str, operator: bool, policy: dict[str, Any]) -> bool:
        """Add or replace a policy. Returns whether it is new. Raises NotFoundError for the virtual host."""
        self._check_vhost(vhost)
        made = Policy(**policy)
        of = self._vhosts.setdefault(vhost, VhostPolicies()).of(operator=operator)
        new = made.name not in of
        of[made.name] = made
        self._now_different(vhost)
        return new

    def _delete(self, vhost: str, operator: bool, name: str) -> None:
        if self.in_vhost(vhost, operator=operator).get(name) is None:
            raise NotFoundError(f"no policy '{name}' in vhost '{vhost}'")
        del self._vhosts[vhost].of(operator=operator)[name]
        self._now_different(vhost)

    def _now_different(self, vhost: str) -> None:
        self._applied.clear()
        self._changed(vhost)

    def forget_vhost(self, vhost: str) -> None:
        """Forget the policies of a deleted virtual host."""
        self._vhosts.pop(vhost, None)
        self._applied.clear()

    # -- look-ups -------------------------------------------------------------------------------

    def in_vhost(self, vhost: str, *, operator: bool) -> dict[str, Policy]:
        """The policies of a virtual host by name. The caller must not change them."""
        return self._vhosts.get(vhost, VhostPolicies()).of(operator=operator)

    def applied(self, vhost: str, kind: ResourceKind, name: str) -> AppliedPolicies:
        """The policies that apply to a queue or exchange of this name."""
        policies = self._vhosts.get(vhost)
        if policies is None:
            return NO_POLICY
        key = (vhost, kind, name)
        found = self._applied.get(key)
        if found is None:
            if len(self._applied) >= REMEMBERED_NAMES:
                self._applied.clear()
            found = self._applied[key] = _applied(policies, kind, name)
        return found

    def settings(self, vhost: str, kind: ResourceKind, name: str, arguments: dict[str, Any]) -> QueueSettings:
        """The settings of a queue by its arguments and its policies."""
        definition = self.applied(vhost, kind, name).definition
        if kind is ResourceKind.STREAM:
            definition = {key: value for key, value in definition.items() if key in KEYS_OF_STREAMS}
        return read_arguments(arguments_with(arguments, definition) if definition else arguments)

    def alternate(self, vhost: str, exchange: str) -> str | None:
        """The alternate exchange that policies give an exchange; None where they give none."""
        found = self.applied(vhost, ResourceKind.EXCHANGE, exchange).definition.get(ALTERNATE_EXCHANGE)
        return found if isinstance(found, str) else None

    def set_alternates(self, vhost: str, exchanges: Exchanges) -> None:
        """Give the virtual host's exchanges the alternate exchanges of the present policies."""
        found = ((one.name, self.alternate(vhost, one.name)) for one in exchanges)
        exchanges.set_policy_alternates({name: other for name, other in found if other is not None})

    # -- snapshots ------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        return {
            vhost: [[asdict(one) for one in each.values()] for each in (policies.user, policies.operator)]
            for vhost, policies in self._vhosts.items()
        }

    def restore(self, plain: dict[str, Any] | None) -> None:
        """Inverse of `to_plain`. `plain` is None in a snapshot of a release without policies."""
        self._applied.clear()
        self._vhosts = {}
        for vhost, (user, operator) in (plain or {}).items():
            self._vhosts[vhost] = VhostPolicies(
                {one["name"]: Policy(**one) for one in user}, {one["name"]: Policy(**one) for one in operator}
            )


NO_POLICY: Final = AppliedPolicies(None, None, {})


def _applied(policies: VhostPolicies, kind: ResourceKind, name: str) -> AppliedPolicies:
    user, operator = (_first(each, kind, name) for each in (policies.user, policies.operator))
    return AppliedPolicies(
        None if user is None else user.name,
        None if operator is None else operator.name,
        joined_definition(
            {} if user is None else user.definition, {} if operator is None else operator.definition
        ),
    )


def _first(policies: dict[str, Policy], kind: ResourceKind, name: str) -> Policy | None:
    found = [one for one in policies.values() if one.applies_to(kind, name)]
    return min(found, key=_rank, default=None)


def _rank(policy: Policy) -> tuple[int, str]:
    return -policy.priority, policy.name

"""RabbitMQ's `definitions.json`: read as a whole before any entry is carried out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.admin.api.declaration_views import exchange_command, queue_command
from cluster.admin.api.errors import ApiError, bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.internal_channel import checked
from cluster.admin.api.policy_views import OPERATOR_COMPONENT, read_policy
from cluster.admin.api.views_over_queues import read_view_definition
from cluster.catalog.views import ViewDefinition
from node.routing.exchange import DEFAULT_EXCHANGE, RESERVED_PREFIX
from node.routing.matching import Destination, DestinationKind
from node.session.commands import Bind, DeclareExchange, DeclareQueue

VHOST_LIMITS_PARAMETER: Final = "vhost-limits"
"""The one runtime parameter of RabbitMQ that is supported, under another name."""


@dataclass(frozen=True, slots=True)
class DefinedBinding:
    vhost: str
    source: str
    destination: Destination
    routing_key: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry that is not imported, and why."""

    what: str
    name: str
    reason: str


@dataclass(slots=True)
class Definitions:
    """The entries of a file, each with its virtual host, names and arguments checked."""

    users: list[tuple[str, Fields]] = field(default_factory=list)
    vhosts: list[tuple[str, Fields]] = field(default_factory=list)
    permissions: list[tuple[str, str, Fields]] = field(default_factory=list)
    topic_permissions: list[tuple[str, str, Fields]] = field(default_factory=list)
    limits: list[tuple[str, str, int]] = field(default_factory=list)
    """Virtual host, limit, value."""
    exchanges: list[tuple[str, DeclareExchange]] = field(default_factory=list)
    queues: list[tuple[str, DeclareQueue]] = field(default_factory=list)
    bindings: list[DefinedBinding] = field(default_factory=list)
    policies: list[tuple[str, bool, dict[str, Any]]] = field(default_factory=list)
    """Virtual host, whether it is an operator policy, and the policy in plain form."""
    views: list[tuple[str, ViewDefinition]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def needed_vhosts(self) -> set[str]:
        """Virtual hosts that entries are in."""
        placed: list[Any] = [*self.permissions, *self.topic_permissions, *self.limits]
        placed += [*self.exchanges, *self.queues, *self.policies, *self.views]
        return {entry[0] for entry in placed} | {one.vhost for one in self.bindings}


class DefinitionReader:
    """Reads a file of a whole cluster, or of one virtual host when `vhost` is given."""

    def __init__(self, file: Fields, vhost: str | None) -> None:
        self._file = file
        self._vhost = vhost
        self.read = Definitions()

    def definitions(self) -> Definitions:
        """The entries of the file. Raises ApiError for the first error in the file."""
        if self._vhost is None:
            self._read_cluster()
        self._read_parameters()
        for what, operator in (("policies", False), ("operator_policies", True)):
            for entry in self._file.objects(what):
                self._read_policy(entry, entry, operator=operator)
        self._read_exchanges()
        self._read_queues()
        self.read.bindings = [self._binding(entry) for entry in self._file.objects("bindings")]
        views = self._file.objects("views")
        self.read.views = [(self._place(one), read_view_definition(_name(one), one)) for one in views]
        return self.read

    def _read_cluster(self) -> None:
        read = self.read
        read.users = [(_name(entry), entry) for entry in self._file.objects("users")]
        for _, entry in read.users:
            if "tags" not in entry.values:
                raise bad_request("tags_not_present")
        read.vhosts = [(_name(entry), entry) for entry in self._file.objects("vhosts")]
        read.permissions = list(self._rights("permissions"))
        read.topic_permissions = list(self._rights("topic_permissions"))

    def _rights(self, what: str) -> Iterator[tuple[str, str, Fields]]:
        for entry in self._file.objects(what):
            entry.require("user")
            yield self._place(entry), entry.text("user"), entry

    def _read_parameters(self) -> None:
        for entry in self._file.objects("parameters"):
            component = entry.text("component")
            if component == OPERATOR_COMPONENT:
                self._read_policy(entry, Fields(entry.table("value")), operator=True)
                continue
            if component != VHOST_LIMITS_PARAMETER:
                name = f"{component} {entry.text('name')}"
                self.read.left_out.append(LeftOut("parameters", name, "runtime parameters are not supported"))
                continue
            limits = Fields(entry.table("value"))
            vhost = self._place(entry)
            self.read.limits += [(vhost, limit, limits.integer(limit)) for limit in limits.values]

    def _read_policy(self, entry: Fields, said: Fields, *, operator: bool) -> None:
        """Take a policy; a policy with an unsupported key, such as a federation's, is left out."""
        name, vhost = _name(entry), self._place(entry)
        try:
            policy = read_policy(name, said, operator=operator)
        except ApiError as error:
            self.read.left_out.append(LeftOut("policies", name, str(error.reason)))
        else:
            self.read.policies.append((vhost, operator, policy))

    def _read_exchanges(self) -> None:
        for entry in self._file.objects("exchanges"):
            name = entry.text("name")
            if name == DEFAULT_EXCHANGE or name.startswith(RESERVED_PREFIX):
                continue
            command = exchange_command(name, entry)
            checked(command)
            self.read.exchanges.append((self._place(entry), command))

    def _read_queues(self) -> None:
        for entry in self._file.objects("queues"):
            name = _name(entry)
            command = queue_command(name, entry)
            checked(command)
            if name.startswith(RESERVED_PREFIX):
                reason = f"names that begin with '{RESERVED_PREFIX}' are given by the broker alone"
                self.read.left_out.append(LeftOut("queues", name, reason))
            else:
                self.read.queues.append((self._place(entry), command))

    def _binding(self, entry: Fields) -> DefinedBinding:
        entry.require("source", "destination", "destination_type")
        try:
            kind = DestinationKind(entry.text("destination_type"))
        except ValueError:
            raise bad_request(f"unknown destination_type '{entry.text('destination_type')}'") from None
        source, name, key = entry.text("source"), entry.text("destination"), entry.text("routing_key")
        arguments = entry.table("arguments")
        checked(Bind(source, Destination(kind, name), key, arguments))
        return DefinedBinding(self._place(entry), source, Destination(kind, name), key, arguments)

    def _place(self, entry: Fields) -> str:
        """The virtual host that an entry is in."""
        if self._vhost is not None:
            return self._vhost
        entry.require("vhost")
        return entry.text("vhost")


def _name(entry: Fields) -> str:
    entry.require("name")
    return entry.text("name")

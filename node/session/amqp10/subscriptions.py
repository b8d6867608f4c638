"""Links that receive from an exchange: each has a queue for itself, which is bound to the exchange.

A terminus that ends with its connection has a server-named exclusive queue. One that the peer wants kept
longer (expiry-policy never, or a timeout) has a queue that is named by the peer's container and by the link,
so that the peer finds the terminus again on each node: a durable subscription of JMS. The queue argument
`x-subscription` states the address of the source, so that a peer may attach again without a source (part 2,
section 2.6.3), and so that the node knows a source that has changed: the terminus is then made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote

from node.refusal import NotFoundError, Refusal, ResourceLockedError
from node.routing.matching import Destination, DestinationKind
from node.session.commands import (
    Bind,
    Command,
    DeclareQueue,
    DeleteQueue,
    DescribeQueue,
    QueueDescribed,
    QueueFound,
    Result,
)
from node.session.ports import QueueDeclaration
from node.wire.amqp10.addresses import destination_of
from node.wire.amqp10.errors import AddressError
from node.wire.amqp10.retention import Retention, lasting

SUBSCRIPTION: Final = "x-subscription"
"""The queue argument with the source's address."""

KEEPS_UNSETTLED: Final = "x-subscription-unsettled"
"""The queue argument of a terminus that was made with the durability unsettled-state."""

MAX_NAME_OCTETS: Final = 255

EXCLUSIVE: Final = QueueDeclaration("", durable=False, exclusive=True, auto_delete=False)
"""A queue that ends with its connection."""

CarryOut = Callable[[Command, Callable[[Result | Refusal], None]], None]
Subscribed = Callable[[str, str, Retention, bool], None]
"""Called with the queue, the source's address and the retention of a terminus that is ready, and whether its
unsettled deliveries are to be kept.
"""

Refused = Callable[[Refusal], None]


def queue_name(container: str, link: str) -> str:
    """The name of the queue of a terminus that outlives the connection. Raises AddressError if that is too
    long.
    """
    name = f"subscription/{quote(container, safe='')}/{quote(link, safe='')}"
    if len(name) > MAX_NAME_OCTETS:
        raise AddressError(f"the names of container and link have more than {MAX_NAME_OCTETS - 14} octets")
    return name


class Subscribing:
    """Finds or makes the queue of one link, and binds the queue. `ready` or `refused` is called once."""

    __slots__ = ("_address", "_carry_out", "_keeps", "_name", "_ready", "_refused", "_retention")

    def __init__(self, carry_out: CarryOut, ready: Subscribed, refused: Refused) -> None:
        self._carry_out, self._ready, self._refused = carry_out, ready, refused
        self._address = self._name = ""
        self._retention: Retention | None = None
        self._keeps = False

    def subscribe(self, name: str, address: str, retention: Retention, *, keeps: bool) -> None:
        """Find the queue with this name, or make the queue; an empty name is for an exclusive queue. `keeps`:
        the source asks for the durability unsettled-state.
        """
        self._name, self._address, self._retention, self._keeps = name, address, retention, keeps
        if name:
            self._carry_out(DescribeQueue(name), self._looked_up)
        else:
            self._declare()

    def resume(self, name: str) -> None:
        """Find the queue with this name, whatever its source is."""
        self._name = name
        self._carry_out(DescribeQueue(name), self._looked_up)

    def _looked_up(self, result: Result | Refusal) -> None:
        if isinstance(result, QueueDescribed):
            self._found(result)
        elif not isinstance(result, NotFoundError):
            self._refuse(result)
        elif self._address:
            self._declare()
        else:
            self._refused(NotFoundError(f"the link has no source, and there is no terminus '{self._name}'"))

    def _found(self, result: QueueDescribed) -> None:
        address = result.queue.arguments.get(SUBSCRIPTION)
        if not isinstance(address, str):
            self._refused(ResourceLockedError(f"queue '{self._name}' is not a queue of a subscription"))
        elif self._address and address != self._address:
            self._carry_out(DeleteQueue(self._name), self._deleted)
        else:
            self._address, self._keeps = address, result.queue.arguments.get(KEEPS_UNSETTLED) is True
            unused_ms = result.queue.arguments.get("x-expires", 0)
            self._retention = lasting(unused_ms // 1000, result.queue.durable)
            self._bind(False)

    def _deleted(self, result: Result | Refusal) -> None:
        if isinstance(result, Refusal):
            self._refused(result)
        else:
            self._declare()

    def _declare(self) -> None:
        retention = self._retention
        assert retention is not None
        wanted = EXCLUSIVE
        if self._name:
            arguments: dict[str, str | int] = {SUBSCRIPTION: self._address}
            if self._keeps:
                arguments[KEEPS_UNSETTLED] = True
            if retention.timeout_s:
                arguments["x-expires"] = retention.timeout_s * 1000
            wanted = QueueDeclaration(self._name, bool(retention.durable), False, False, arguments)
        self._carry_out(DeclareQueue(wanted), self._declared)

    def _declared(self, result: Result | Refusal) -> None:
        if isinstance(result, QueueFound):
            self._name = result.name
            self._bind(result.created)
        else:
            self._refuse(result)

    def _bind(self, made: bool) -> None:
        """Bind the queue. An existing queue is bound again: the exchange may have been deleted meanwhile."""
        try:
            exchange, key = destination_of(self._address)
        except AddressError as error:
            self._refused(ResourceLockedError(str(error)))
            return
        command = Bind(exchange, Destination(DestinationKind.QUEUE, self._name), key)
        self._carry_out(command, partial(self._bound, made))

    def _bound(self, made: bool, result: Result | Refusal) -> None:
        if isinstance(result, Refusal):
            if made:
                self._carry_out(DeleteQueue(self._name), ignored)
            self._refused(result)
        elif self._retention is not None:
            self._ready(self._name, self._address, self._retention, self._keeps)

    def _refuse(self, result: Result | Refusal) -> None:
        if isinstance(result, Refusal):
            self._refused(result)


def ignored(_: Result | Refusal) -> None:
    """For commands whose result no peer waits for."""

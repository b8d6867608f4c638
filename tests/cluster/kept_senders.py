"""Clients of AMQP 1.0 whose links send to targets that are kept with their unsettled deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.queue.targets import TargetState
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import (
    ReceiverSettleMode,
    Role,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from tests.cluster.kept_links import KEPT_S, QUEUE, KeptClient
from tests.inside import state_of
from tests.site import Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import LARGE, sender
from tests.wire.amqp10.sections import message


def sending(unsettled: Mapping[bytes, Any] | None = None, queue: str = QUEUE, **fields: Any) -> d.Attach:
    """The attach of a link whose target is to be kept, and on which the client settles first."""
    asked: dict[str, Any] = {"timeout": KEPT_S, "expiry_policy": TerminusExpiryPolicy.LINK_DETACH}
    asked |= {"durable": TerminusDurability.UNSETTLED_STATE} | fields
    target = d.Target(queue, **asked)
    attach = sender(0, target=target, rcv_settle_mode=ReceiverSettleMode.SECOND)
    attach.unsettled = None if unsettled is None else dict(unsettled)
    return attach


class Sender(KeptClient):
    """A client with a link on which it sends. `unsettled` has the state of each delivery that the client has
    not settled, by tag; None before the node has told an outcome.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        unsettled: Mapping[bytes, Any] | None = None,
        max_frame_size: int = LARGE,
        **fields: Any,
    ) -> None:
        super().__init__(site, name, max_frame_size=max_frame_size)
        self.unsettled: dict[bytes, Any] = dict(unsettled or {})
        self._tags: dict[int, bytes] = {}
        self.send(sending(self.unsettled, **fields))
        site.until(lambda: self.came(d.Attach))
        self.answer: Any = self.came(d.Attach)[0]

    @property
    def told(self) -> dict[bytes, Any]:
        """The node's unsettled map."""
        return dict(self.answer.unsettled or {})

    @property
    def credit(self) -> int:
        """The credit that the node has given last, with the deliveries that it counts."""
        flows = [one for one in self.came(d.Flow) if one.handle is not None]
        return (flows[-1].link_credit or 0) + (flows[-1].delivery_count or 0)

    def deliver(self, *tags: bytes, **fields: Any) -> None:
        """Send messages whose bodies are their tags, without waiting for the node."""
        for tag in tags:
            number = len(self._tags)
            self._tags[number], self.unsettled[tag] = tag, None
            frame = transfer(number, message(body=tag), delivery_tag=tag, **fields)
            self.node.input(lambda octets=frame: self.session.receive(octets))

    def outcomes(self) -> dict[bytes, Any]:
        """The states of the unsettled deliveries, once the node has told what it tells now."""
        for told in self.came(d.Disposition):
            assert told.role is Role.RECEIVER and not told.settled, "the node settles second"
            for number in range(told.first, (told.first if told.last is None else told.last) + 1):
                if self._tags[number] in self.unsettled:
                    self.unsettled[self._tags[number]] = told.state
        return self.unsettled

    def accepted(self, *tags: bytes) -> None:
        """Wait until the node has accepted these deliveries."""
        self.site.until(lambda: all(isinstance(self.outcomes()[tag], d.Accepted) for tag in tags))

    def settle(self, *tags: bytes) -> None:
        numbers = {tag: number for number, tag in self._tags.items()}
        for tag in tags:
            del self.unsettled[tag]
            self.send(d.Disposition(Role.SENDER, numbers[tag], settled=True, state=d.Accepted()))


def targets(site: Site) -> list[TargetState]:
    """The targets that the owners keep, as their replicas have them."""
    owners = [one for node in site.nodes.values() if node.ready for one in node.broker.owners.values()]
    queues = [queue for one in owners if one.active for queue in state_of(one).machine.queues.values()]
    return [target for queue in queues if queue.targets is not None for target in queue.targets.all()]


def kept_tags(site: Site) -> set[bytes]:
    return {tag for target in targets(site) for tag in target.tags}

"""Links of AMQP 1.0 whose unsettled deliveries outlive them: clients, and what the owners keep for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pytest

from node.queue.operations import LINKS
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import (
    ReceiverSettleMode,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from tests.cluster.links import LinkClient
from tests.inside import state_of
from tests.site import Client, Site
from tests.wire.amqp10.performatives import LARGE, credit, receiver, settled

ACCEPTED = d.Accepted()
KEPT_S = 30
WAYS = ("lost", "detached", "ended", "closed")
QUEUE = "q"

Unsettled = Mapping[bytes, Any]
T = TypeVar("T")


def keeping(unsettled: Unsettled | None = None, queue: str = QUEUE, **fields: Any) -> d.Attach:
    """The attach of a link that keeps its deliveries, and settles behind the node."""
    asked: dict[str, Any] = {"timeout": KEPT_S, "expiry_policy": TerminusExpiryPolicy.LINK_DETACH}
    asked |= fields
    source = d.Source(queue, durable=TerminusDurability.UNSETTLED_STATE, **asked)
    attach = receiver(0, source=source, rcv_settle_mode=ReceiverSettleMode.SECOND)
    attach.unsettled = None if unsettled is None else dict(unsettled)
    return attach


class KeptClient(LinkClient):
    """A client with a link that is kept."""

    def came(self, kind: type[T]) -> list[T]:
        """The performatives of a kind that have come."""
        self.reads()
        return [one.performative for one in self.frames if isinstance(one.performative, kind)]

    def end(self, way: str) -> None:
        """End the link in one of `WAYS`, none of which closes it for good."""
        performative: dict[str, Any] = {"detached": d.Detach(0, False), "ended": d.End(), "closed": d.Close()}
        if way == "lost":
            self.lose()
        else:
            self.send(performative[way])


class Link(KeptClient):
    """A client with a link that keeps its deliveries. `told` is the node's unsettled map."""

    def __init__(
        self, site: Site, name: str, attach: d.Attach, credits: int = 10, max_frame_size: int = LARGE
    ) -> None:
        super().__init__(site, name, max_frame_size=max_frame_size)
        self.send(attach)
        site.until(lambda: self.came(d.Attach))
        self.answer: Any = self.came(d.Attach)[0]
        if credits:
            self.send(credit(credits))
            self.payloads  # noqa: B018

    @property
    def settlements(self) -> list[d.Disposition]:
        return self.came(d.Disposition)

    @property
    def told(self) -> set[bytes]:
        return set(self.answer.unsettled or {})

    @property
    def transfers(self) -> list[d.Transfer]:
        return self.came(d.Transfer)

    @property
    def tags(self) -> list[bytes]:
        return [one.delivery_tag or b"" for one in self.transfers]

    @property
    def bodies(self) -> bytes:
        """The last octet of each message that has come."""
        return b"".join(payload[-1:] for payload in self.payloads)

    def accept(self, first: int, last: int | None = None) -> list[d.Disposition]:
        """Accept deliveries, without settling them; returns what the node settles."""
        found = self.send(settled(first, last, ACCEPTED, settled=False))
        return [one for one in found if isinstance(one, d.Disposition)]


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


@pytest.fixture
def client(site: Site) -> Client:
    """A client that has declared the queue."""
    client = site.client("n1")
    client.declare(QUEUE)
    return client


def publish(client: Client, *bodies: bytes) -> None:
    assert all(client.confirms(client.publish(QUEUE, *bodies)))


def owner(site: Site) -> str:
    return next(
        name
        for name, node in site.nodes.items()
        if node.ready and any(one.active and one.queues for one in node.broker.owners.values())
    )


def kept(site: Site) -> int:
    """The number of messages that the owner keeps for links."""
    owners = [one for node in site.nodes.values() if node.ready for one in node.broker.owners.values()]
    queues = [queue for one in owners for queue in state_of(one).queues.values()]
    return sum(len(queue.delivery.leases.get(LINKS, ())) for queue in queues)


def attached(site: Site) -> int:
    """The number of links of which the log has that a consumer has them."""
    owners = [one for node in site.nodes.values() if node.ready for one in node.broker.owners.values()]
    queues = [queue for one in owners if one.active for queue in state_of(one).machine.queues.values()]
    return sum(len(queue.targets or ()) for queue in queues)


def stolen(link: KeptClient) -> bool:
    """Whether the client has heard that its link is attached by another connection."""
    return [one.error and one.error.condition for one in link.came(d.Detach)] == [d.LinkCondition.STOLEN]


def drained(site: Site, client: Client) -> None:
    """No queue has a message, a lease, or a trace of a link."""
    site.until(lambda: client.depth(QUEUE) == 0)
    for node in site.nodes.values():
        for one in node.broker.owners.values() if node.ready else ():
            for queue in state_of(one).machine.queues.values():
                assert not queue.alive and not queue.remarks

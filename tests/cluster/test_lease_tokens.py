"""A settlement names the token of the lease under which its message came, so that a settlement that crosses
the next delivery on the way leaves that delivery alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.config.formats import FORMAT_LEVEL
from cluster.gateway.link import PartitionLink
from node.queue.dispatch import QueueOwner
from tests.inside import state_of
from tests.simulation.node import SimulatedNode
from tests.site import Client, Site

QUEUE = "q"
PERIOD_MS = 300
PATIENCE_S = 2.0
STEP_S = 0.0001
"""Less than a message takes from node to node."""


def owned_queues(node: SimulatedNode) -> list[QueueOwner]:
    """The queues with a lease period that the node owns."""
    owners = [state_of(one) for one in node.broker.owners.values() if one.active]
    return [one for owner in owners for one in owner.queues.values() if one.delivery.timed is not None]


class Crossing:
    """Two clients of a node, of a queue that the other node owns. The first client keeps a message until its
    lease lapses, and answers when the owner has sent the message to the second client, which has not got it
    yet.
    """

    def __init__(self, *, transactional: bool = False, get: bool = False) -> None:
        self.site = Site("n1", "n2")
        self.near = self.site.client("n1")
        self.near.declare(
            QUEUE, lease_period=PERIOD_MS, dead_letter_exchange="", dead_letter_routing_key="dead"
        )
        far = next(name for name, node in self.site.nodes.items() if not owned_queues(node))
        self.near.declare("dead")
        self.near.confirms(self.near.publish(QUEUE, b"1"))
        self.late = self.site.client(far, transactional=transactional)
        self.current = self.site.client(far)
        if get:
            got = self.late.get(QUEUE, no_ack=False)
            assert got is not None
            self.late.deliveries.append(got)
        else:
            self.late.consume(QUEUE, "late", prefetch=1)
            self.site.until(lambda: self.late.deliveries)
        self.current.consume(QUEUE, "current", prefetch=2)

    def cross(self, answer: Callable[[Client], object]) -> None:
        """Have the first client answer while the second delivery is on its way."""
        token, limit = self.token, self.site.world.now + PATIENCE_S
        while self.token in (0, token):
            assert self.site.world.now < limit
            self.site.run(STEP_S)
        assert not self.current.deliveries
        answer(self.late)
        self.site.run(0.1)

    @property
    def owner(self) -> QueueOwner:
        (owner,) = [one for node in self.site.nodes.values() for one in owned_queues(node)]
        return owner

    @property
    def token(self) -> int:
        """The token of the lease under which the message is; 0 without one."""
        delivery = self.owner.delivery
        for lease in delivery.leases.values():
            for number, _ in lease.ranges():
                found = delivery.timed and delivery.timed.of(number)
                return found.token if found else 0
        return 0


ANSWERS: dict[str, Callable[[Client], object]] = {
    "ack": lambda late: late.ack(late.deliveries[0]),
    "reject": lambda late: late.nack(late.deliveries[0], requeue=False),
    "requeue": lambda late: late.nack(late.deliveries[0], requeue=True),
    "disconnect": lambda late: late.close(),
}
ways = pytest.mark.parametrize("answer", list(ANSWERS))


def stays_with_the_second_client(crossing: Crossing) -> None:
    """The second client has the message, no client gets it meanwhile, and the client settles it."""
    assert [one.body for one in crossing.current.deliveries] == [b"1"]
    assert crossing.token and crossing.owner.delivery.leased_count == 1
    assert crossing.near.depth("dead") == 0
    crossing.current.ack(crossing.current.deliveries[0])
    crossing.site.run(0.1)
    assert crossing.owner.delivery.leased_count == 0 and crossing.near.depth(QUEUE) == 0


@ways
@pytest.mark.parametrize("get", [False, True])
def test_an_answer_that_crosses_the_next_delivery_leaves_that_delivery_alone(answer: str, get: bool) -> None:
    crossing = Crossing(get=get)
    crossing.cross(ANSWERS[answer])
    stays_with_the_second_client(crossing)


@pytest.mark.parametrize("answer", ["ack", "reject", "requeue"])
def test_a_commit_that_crosses_the_next_delivery_leaves_that_delivery_alone(answer: str) -> None:
    crossing = Crossing(transactional=True)

    def commit(late: Client) -> None:
        ANSWERS[answer](late)
        late.commit()

    crossing.cross(commit)
    stays_with_the_second_client(crossing)


@pytest.mark.interpreted
def test_without_tokens_the_owner_cannot_tell_the_two_clients_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLink, "told_token", lambda *_: 0)
    crossing = Crossing()
    crossing.cross(ANSWERS["requeue"])
    assert len(crossing.current.deliveries) == 2


@pytest.mark.interpreted
@pytest.mark.parametrize("answer", ["ack", "requeue"])
def test_while_a_node_reads_no_tokens_no_operation_names_one(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.LEASE_TOKENS", FORMAT_LEVEL + 1)
    crossing = Crossing()
    link = crossing.late.node.broker.links.by_partition
    assert all(not one.held.tokens for one in link.values())
    ANSWERS[answer](crossing.late)
    crossing.site.run(0.1)
    assert crossing.near.depth(QUEUE) == 0
    assert len(crossing.current.deliveries) == (answer == "requeue")

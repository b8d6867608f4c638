"""A publisher hears of every refusal, whichever owner has refused, whatever the network has lost (A23)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.test_batches_that_come_again import NAMES, owner_of
from tests.inside import machine_of, state_of
from tests.site import Site

pytestmark = pytest.mark.requirement("A23.1", "A24.6")


class Deafened:
    """A client on the node `far` does not hear the owner, on `near`, of the queue "full", which is full."""

    def __init__(self) -> None:
        self.site = Site(*NAMES)
        self.admin = self.site.client("n1")
        self.admin.declare("full", max_length=1, overflow="reject-publish")
        self.owner = owner_of(self.site, "full")
        nodes = list(self.site.nodes.values())
        self.near = next(node for node in nodes if self.owner in node.broker.owners.values())
        self.far = next(node for node in nodes if node is not self.near and node.name != "n1")
        self.beside = self._beside()
        self.client = self.site.client(self.far.name)
        self.link = self.far.broker.links.to(self.owner.partition)
        assert self.client.confirms(self.client.publish("full", b"a")) == [True]
        self.site.run(0.1)
        self.mend: Callable[[], None] = self.site.network.cut([(self.near.name, self.far.name)])

    def _beside(self) -> str:
        """A queue without a limit in the same partition."""
        queues = self.near.broker.catalog.state.queues
        for number in range(1000):
            self.admin.declare(name := f"beside {number}")
            if queues["/", name].partition == self.owner.partition:
                return name
        raise AssertionError("no queue is in the partition")

    def refused(self) -> bool:
        """Whether the owner has refused a message."""
        return any(queue.delivery.tally.refused for queue in self.owner.queues.values())


def test_a_new_owner_knows_what_was_refused_before_it() -> None:
    """The log has the later batch alone: the owner refused the earlier one, of which no replica keeps any."""
    deaf = Deafened()
    refused = deaf.client.publish("full", b"b")
    deaf.site.until(deaf.refused)
    taken = deaf.client.publish(deaf.beside, b"c")
    deaf.site.until(lambda: machine_of(deaf.owner).number_of(deaf.far.front_end) == 3)
    deaf.site.run(0.01)
    assert len(deaf.link.unacknowledged) == 2
    deaf.near.stop(power=True)
    deaf.mend()
    assert deaf.client.confirms(refused + taken) == [False, True]
    assert deaf.client.bodies("full") == [b"a"]
    assert deaf.client.bodies(deaf.beside) == [b"c"]


def test_an_owner_out_of_reach_whose_messages_are_lost_confirms_nothing() -> None:
    """The way to the owner is broken. On the way back an acknowledgement is lost that told of a refusal."""
    deaf = Deafened()
    refused = deaf.client.publish("full", b"b")
    deaf.site.until(deaf.refused)
    state = state_of(deaf.owner).front_ends.current(deaf.far.front_end)
    assert state is not None
    there = (deaf.far.name, deaf.near.name)
    mend_way_there = deaf.site.network.cut([there])
    deaf.site.network.break_connection(*there)
    deaf.site.until(lambda: deaf.link.owner_node is None)
    deaf.far.peer_gap(deaf.near.name)
    deaf.link.acknowledged(state.epoch, 2)
    mend_way_there()
    deaf.mend()
    assert deaf.client.confirms(refused) == [False]

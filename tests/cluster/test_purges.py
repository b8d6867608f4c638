"""A purge that is sent again, because its queue's owner was lost, removes no message published since."""

from __future__ import annotations

import pytest

from node.wire.amqp091 import methods as m
from tests.cluster.test_empty_answers import cut_off
from tests.site import Site

OLD = 5


@pytest.mark.parametrize("tenths", range(5, 80, 5))
def test_what_is_published_after_a_purge_outlives_the_owner(tenths: int) -> None:
    """The owner is killed `tenths` of a millisecond after the purge was sent."""
    site = Site("n1", "n2", "n3")
    first = site.client("n1")
    first.declare("q")
    owner, (publisher, asker) = cut_off(site, first)
    purging, publishing = site.client(asker), site.client(publisher)
    assert all(publishing.confirms(publishing.publish("q", *(b"old" for _ in range(OLD)))))
    purging.send(m.QueuePurge("q"))
    site.run(tenths / 10_000)
    site.nodes[owner].stop(power=False)
    assert publishing.confirms(publishing.publish("q", b"new")) == [True]
    told = purging.answer(m.QueuePurgeOk).message_count
    left = publishing.bodies("q")
    # A purge that begins after the publish removes that message with the others, and counts it.
    assert left == [b"new"] or (left == [] and told == OLD + 1), (told, left)

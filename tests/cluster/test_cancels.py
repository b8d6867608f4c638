"""basic.cancel: leased messages have come to the consumer, and all others stay in the queue (A17)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.requests import FrontEndRequests
from node.wire.amqp091 import methods as m
from tests.cluster.kinds import KINDS
from tests.site import Site

STEPS = range(-8, 64)
"""The time of a publish relative to the cancel, in quarters of a millisecond."""

SHARED = sorted(KINDS.keys() - {"exclusive"})
"""The kinds of queues that several connections can use."""

STORED = [(kind, mode) for kind in SHARED for mode in (1, 2)]
"""(kind of queue, delivery mode of its messages)."""


@pytest.mark.requirement("A17.7")
@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize(("kind", "mode"), STORED)
@pytest.mark.parametrize("arguments", [{}, {"single_active_consumer": True}])
def test_a_message_around_a_cancel_comes_to_the_consumer_or_stays(
    kind: str, mode: int, no_ack: bool, arguments: dict[str, bool]
) -> None:
    """Also without acknowledgements, where the message could not go back."""
    site = Site("n1", "n2", "n3")
    consuming, publishing = site.client("n3"), site.client("n1")
    publishing.declare("q", **KINDS[kind], **arguments)
    ends = set()
    for step in STEPS:
        body = str(step).encode()
        consuming.deliveries.clear()
        tag = consuming.consume("q", f"tag{step}", no_ack=no_ack)
        tags = publishing.publish("q", b"before " + body, delivery_mode=mode)
        site.until(lambda: consuming.deliveries)
        if step < 0:
            tags += publishing.publish("q", body, delivery_mode=mode)
            site.run(-step / 4000)
        consuming.send(m.BasicCancel(tag))
        if step >= 0:
            site.run(step / 4000)
            tags += publishing.publish("q", body, delivery_mode=mode)
        consuming.answer(m.BasicCancelOk)
        came = [one.body for one in consuming.deliveries]
        publishing.confirms(tags)
        for one in [] if no_ack else consuming.deliveries:
            consuming.ack(one)
        assert came + publishing.bodies("q") == [b"before " + body, body], step
        assert [one.body for one in consuming.deliveries] == came, "nothing comes behind the answer"
        ends.add(len(came))
    assert ends == {1, 2}


@pytest.mark.parametrize("auto_delete", [False, True])
def test_a_cancel_asks_the_owner_once(auto_delete: bool) -> None:
    """It asks once more, whether this was the last consumer, where the queue may be deleted with it."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q", auto_delete=auto_delete)
    client = site.client("n3")
    tag = client.consume("q")
    broker = client.node.broker
    link = broker.links.to(broker.catalog.state.queues["/", "q"].partition)
    before = link._request
    client.cancel(tag)
    assert link._request - before == 1 + auto_delete


@pytest.mark.interpreted
def test_a_consumer_of_an_owner_of_the_last_release_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an owner takes an unknown request for a basic.get of the queue in the first argument."""
    take = FrontEndRequests.take

    def of_last_release(
        self: FrontEndRequests, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]
    ) -> None:
        known = ("attach", "get", "purge", "count", "redeliver")
        take(self, front_end, epoch, request, name if name in known else "get", arguments)

    site = Site("n1", "n2", "n3")
    monkeypatch.setattr(FrontEndRequests, "take", of_last_release)
    for node in site.nodes.values():
        node.broker._peer_formats.own = 0
    site.client("n1").declare("q", auto_delete=True)
    client, other = site.client("n3"), site.client("n2")
    client.consume("q", "first")
    other.consume("q", "second")
    client.cancel("first")
    assert other.confirms(other.publish("q", b"a")) == [True]
    site.until(lambda: other.deliveries)
    assert client.deliveries == []
    other.cancel("second")
    assert ("/", "q") not in site.nodes["n1"].broker.catalog.state.queues

"""An owner's answers without an entry in the log are true, although a successor may have been elected."""

from __future__ import annotations

import pytest

from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.cluster.test_leases import isolate
from tests.site import Client, Site

QUESTIONS: dict[str, Method] = {
    "how many messages": m.QueueDeclare("q", passive=True),
    "a purge": m.QueuePurge("q"),
    "a message": m.BasicGet("q", no_ack=True),
}


def owners_of(site: Site, partition: int) -> list[str]:
    nodes = site.nodes.values()
    return [
        node.name
        for node in nodes
        if partition in node.broker.owners and node.broker.owners[partition].active
    ]


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_owner_with_a_successor_answers_nothing_that_the_successor_has_changed(question: str) -> None:
    site = Site("n1", "n2", "n3")
    first: Client = site.client("n1")
    first.declare("q")
    partition = site.nodes["n1"].broker.catalog.state.queues["/", "q"].partition
    site.until(lambda: owners_of(site, partition))
    (old,) = owners_of(site, partition)
    others = [name for name in site.nodes if name != old]
    asking, publishing = site.client(old), site.client(others[0])
    assert asking.declare("q").message_count == 0
    assert asking.get("q") is None
    mend = isolate(site, old)
    site.until(lambda: owners_of(site, partition) not in ([old], []))
    assert publishing.confirms(publishing.publish("q", b"new")) == [True]
    before = site.nodes[old].broker
    assert before.may_serve(partition), "the former owner has its lease still"
    assert before.catalog_fresh()
    asking.send(QUESTIONS[question])
    site.run(3.0)
    mend()
    answer = asking.answer(m.QueueDeclareOk, m.QueuePurgeOk, m.BasicGetOk, m.BasicGetEmpty)
    assert not isinstance(answer, m.BasicGetEmpty)
    assert getattr(answer, "message_count", 0) == (0 if isinstance(answer, m.BasicGetOk) else 1)

"""The owner of a queue gives consumers their credit in the order in which their front ends have told it."""

from __future__ import annotations

from node.queue.decision_format import encode_remark
from node.queue.remarks import Remark, Subject
from tests.cluster.test_linearizable_reads import owners_of
from tests.inside import state_of
from tests.site import Site


def test_credit_that_waits_for_a_return_does_not_take_later_credit_away() -> None:
    """The earlier credit waits for an entry that is proposed later than the return."""
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    queue = client.declare("q").queue
    client.consume(queue, prefetch=1)
    reference = client.node.broker.catalog.state.queues["/", queue]
    (name,) = owners_of(site, reference.partition)
    node = site.nodes[name]
    owner = node.broker.owners[reference.partition]
    state = state_of(owner)
    (key,) = state.queues[reference.id].delivery.consumers
    front_end, number = key
    epoch = state.front_ends.epoch(front_end)
    assert epoch is not None

    def credit(limit: int) -> None:
        owner.sessions.credit(front_end, epoch or 0, [(number, limit)])

    def propose() -> None:
        state.operation(encode_remark(Remark(reference.id, Subject.ANNOTATIONS, [], b"")))

    def returning() -> None:
        propose()
        state.await_return(reference.id)

    def late() -> None:
        propose()
        credit(4)

    node.input(returning)
    site.run(0.001)
    node.input(late)
    site.until(lambda: not state.returning(reference.id), step_s=0.0001)
    consumer = state.queues[reference.id].delivery.consumers.get(front_end, number)
    assert consumer is not None and consumer.limit == 1, "the credit waits still"
    node.input(lambda: credit(12))
    site.run(0.1)
    assert consumer.limit == 12

"""A link keeps batches that are not committed, and sends a new owner its consumers and leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cluster.gateway.link import SETTLED_AT_ONCE, PartitionLink
from cluster.gateway.link_context import LinkContext
from cluster.gateway.state import NO_HOLDER, WINDOW_BATCHES, WINDOW_BYTES, Confirmation, LinkConsumer, Vote
from cluster.peers.held_leases import TellsLeases
from cluster.peers.latencies import Latencies
from cluster.peers.link_messages import (
    GET_LINK,
    NOT_FOUND,
    UNREACHABLE,
    Delivery,
    RemoteFrontEnd,
    RemoteOwner,
    address,
    receive_for_front_end,
    receive_for_owner,
)
from node.delivery.settlements import TOKEN_SHIFT, consumer_of, token_of
from node.queue.entry_format import read_operations
from node.queue.operations import Discard, Publish, Return, Settle
from node.wire.amqp091.routing_keys import by_key
from replication.raft import MessageError
from tests.cluster.recorders import RecordedFrontEnd, RecordedOwner, RecordedSubscriber, run_of
from tests.queue.building import keyed_run

QUEUE = 5
CONSUMER = 16


class Linked:
    """A link with an owner, an epoch and a session."""

    def __init__(self, *, tokens: bool = False, ends: bool = False) -> None:
        self.dirty = 0
        self.waiting = 0
        self.now = 0.0
        self.latencies = Latencies(lambda: self.now)
        tells = TellsLeases(lambda: tokens, lambda: ends)
        context = LinkContext("n1", 77, self.latencies, tells)
        self.link = PartitionLink(4, context, self._dirty, self._wait)
        self.owner = RecordedOwner()
        self.session = RecordedSubscriber()
        self.link.owner_elected("n2", 1, self.owner)

    def _dirty(self, _link: PartitionLink) -> None:
        self.dirty += 1

    def _wait(self, _link: PartitionLink) -> None:
        self.waiting += 1

    @property
    def epoch(self) -> int:
        epoch: int = self.owner.named("hello")[-1][0]
        return epoch

    def publish(self, first: int, count: int = 2) -> None:
        confirmation = Confirmation(self.session, 1, first, first + count - 1, 1)
        self.link.publish(run_of(count), [QUEUE], confirmation)
        self.link.flush()

    def consume(self, limit: int = 10, *, no_ack: bool = False, grouped: bool = False) -> list[Any]:
        answers: list[Any] = []
        holder = CONSUMER if grouped else NO_HOLDER
        consumer = LinkConsumer(CONSUMER, QUEUE, self.session, limit, no_ack, False, 0, holder)
        self.link.attach(consumer, lambda value, _: answers.append(value))
        request = self.owner.named("attach")[-1][1]
        self.link.result(self.epoch, request, None, None)
        return answers

    def deliver(self, first: int, count: int, consumer: int = CONSUMER) -> None:
        self.link.delivered(
            self.epoch, [Delivery(consumer, QUEUE, [(first, first + count - 1)], False, run_of(count))]
        )


def test_publishes_of_one_turn_are_one_numbered_batch() -> None:
    linked = Linked()
    linked.link.publish(run_of(1), [QUEUE], None)
    linked.link.publish(run_of(2), [QUEUE], None)
    linked.link.flush()
    linked.publish(1)
    assert [number for _, number, _ in linked.owner.named("operations")] == [1, 2]


@pytest.mark.requirement("A23.1")
def test_a_confirm_waits_for_every_partition() -> None:
    one, other = Linked(), Linked()
    confirmation = Confirmation(one.session, 3, 7, 9, 2)
    for linked in (one, other):
        linked.link.publish(run_of(3), [QUEUE], confirmation)
        linked.link.flush()
    one.link.acknowledged(one.epoch, 1)
    assert one.session.confirmed == []
    other.link.acknowledged(other.epoch, 1)
    assert one.session.confirmed == [(3, 7, 9)]


@pytest.mark.requirement("A23.1")
def test_what_queues_refuse_is_refused_and_the_rest_is_confirmed() -> None:
    linked, other = Linked(), Linked()
    wide = Confirmation(linked.session, 1, 21, 24, 2)
    linked.link.publish(run_of(3), [QUEUE], None)
    linked.link.publish(run_of(5), [QUEUE], Confirmation(linked.session, 1, 11, 15, 1))
    linked.link.publish(run_of(4), [QUEUE], wide)
    linked.link.flush()
    other.link.publish(run_of(4), [QUEUE], wide)
    other.link.flush()
    linked.link.acknowledged(linked.epoch, 1, [(1, [(0, 3), (5, 6), (11, 11)])])
    assert linked.session.rejected == [(1, 11, 11), (1, 13, 14)]
    assert linked.session.confirmed == [(1, 12, 12), (1, 15, 15)]
    other.link.acknowledged(other.epoch, 1, [(1, [(0, 0)])])
    assert linked.session.rejected[2:] == [(1, 21, 21), (1, 24, 24)]
    assert linked.session.confirmed[2:] == [(1, 22, 23)]


@pytest.mark.requirement("A23.1")
def test_an_acknowledgement_of_an_earlier_epoch_confirms_nothing() -> None:
    """The one before it, which told of the refused messages, is lost."""
    linked = Linked()
    linked.link.publish(run_of(2), [QUEUE], Confirmation(linked.session, 1, 1, 2, 1))
    linked.link.flush()
    old = linked.epoch
    linked.link.resync()
    linked.link.acknowledged(old, 1)
    linked.link.greet()
    linked.link.acknowledged(old, 1)
    assert linked.session.confirmed == []
    linked.link.acknowledged(linked.epoch, 1, [(1, [(0, 0)])])
    assert (linked.session.rejected, linked.session.confirmed) == ([(1, 1, 1)], [(1, 2, 2)])


def test_a_new_owner_gets_what_is_not_committed_in_order_and_before_the_leases() -> None:
    linked = Linked()
    linked.consume()
    linked.deliver(100, 4)
    for first in (1, 3, 5):
        linked.publish(first)
    linked.link.acknowledged(linked.epoch, 1)
    linked.link.settle(QUEUE, [(100, 101)])
    successor = RecordedOwner()
    linked.link.owner_elected("n3", 2, successor)
    names = [call[0] for call in successor.calls]
    assert names == ["hello", "operations", "operations", "operations", "held"]
    assert [number for _, number, _ in successor.named("operations")] == [2, 3, 4]
    ((_, (leases, _, _, _)),) = successor.named("held")
    assert leases == {QUEUE: [(102, 103)]}
    ((epoch, _, consumers, tried),) = successor.named("hello")
    assert tried == 3, "another owner may have what was sent to it"
    assert epoch == linked.epoch + 1
    assert [(one.consumer, one.delivered, one.limit) for one in consumers] == [(CONSUMER, 4, 10)]


def test_what_an_earlier_epoch_delivers_is_ignored() -> None:
    linked = Linked()
    linked.consume()
    old = linked.epoch
    linked.link.resync()
    linked.link.delivered(old, [Delivery(CONSUMER, QUEUE, [(1, 1)], False, run_of(1))])
    assert linked.session.delivered == []
    linked.link.greet()
    linked.deliver(1, 1)
    assert linked.session.delivered == [(CONSUMER, 1, 1, False)]


def test_an_owner_of_an_earlier_term_is_not_greeted() -> None:
    linked = Linked()
    linked.link.owner_elected("n3", 5, RecordedOwner())
    late = RecordedOwner()
    linked.link.owner_elected("n1", 4, late)
    assert late.calls == []


@pytest.mark.requirement("A17.7")
def test_a_delivery_that_crossed_a_cancel_goes_back() -> None:
    linked = Linked()
    linked.consume()
    linked.link.detach(CONSUMER)
    linked.deliver(1, 3)
    linked.link.flush()
    assert linked.session.delivered == []
    assert linked.link.held.leases == {}
    assert len(linked.owner.named("operations")) == 1


def test_what_is_settled_rides_with_the_next_publish() -> None:
    linked = Linked()
    linked.consume()
    linked.deliver(100, 4)
    linked.dirty = 0
    linked.link.settle(QUEUE, [(100, 101)])
    assert (linked.dirty, linked.waiting) == (0, 1)
    linked.link.flush()
    assert linked.owner.named("operations") == []
    linked.publish(1)
    ((_, _, data),) = linked.owner.named("operations")
    assert [type(one) for one in read_operations(data)] == [Settle, Publish]


def test_what_is_settled_waits_for_a_tick_at_most() -> None:
    linked = Linked()
    linked.consume()
    linked.deliver(100, 4)
    linked.link.settle(QUEUE, [(100, 101)])
    linked.link.flush_waiting()
    ((_, _, data),) = linked.owner.named("operations")
    assert list(read_operations(data)) == [Settle(QUEUE, [(100, 101)])]


def test_much_that_is_settled_waits_for_nothing() -> None:
    linked = Linked()
    linked.consume(1000)
    linked.deliver(1, SETTLED_AT_ONCE)
    linked.dirty = 0
    linked.link.settle(QUEUE, [(1, SETTLED_AT_ONCE)])
    assert linked.dirty == 1
    linked.link.flush()
    assert len(linked.owner.named("operations")) == 1


@pytest.mark.parametrize(("delivered", "limit", "urgent"), [(4, 14, False), (5, 15, True), (1, 9, True)])
def test_credit_is_urgent_when_half_of_it_is_used_up_or_it_is_less(
    delivered: int, limit: int, urgent: bool
) -> None:
    linked = Linked()
    linked.consume(10)
    linked.deliver(1, delivered)
    linked.dirty = 0
    linked.link.credit(CONSUMER, limit)
    assert linked.dirty == urgent
    linked.link.flush()
    told = [(linked.epoch, [(CONSUMER, limit)])]
    assert linked.owner.named("credit") == (told if urgent else [])
    linked.link.flush_waiting()
    assert linked.owner.named("credit") == told


def test_neighbouring_settlements_become_one_range() -> None:
    linked = Linked()
    linked.consume()
    linked.deliver(1, 10)
    for number in range(1, 7):
        linked.link.settle(QUEUE, [(number, number)])
    linked.link.flush_waiting()
    ((_, _, data),) = linked.owner.named("operations")
    assert list(read_operations(data)) == [Settle(QUEUE, [(1, 6)])]


def test_a_message_that_was_got_is_leased_until_it_is_settled() -> None:
    linked = Linked()
    got: list[Any] = []
    linked.link.request("get", [QUEUE, False], lambda value, delivery: got.append(delivery))
    request = linked.owner.named("request")[-1][1]
    linked.link.result(linked.epoch, request, 0, Delivery(GET_LINK, QUEUE, [(9, 9)], False, run_of(1)))
    assert list(linked.link.held.leases[QUEUE].ranges()) == [(9, 9)]
    linked.link.settle(QUEUE, [(9, 9)])
    assert not linked.link.held.leases[QUEUE]
    assert len(got) == 1


def test_a_publisher_is_held_back_until_enough_is_committed() -> None:
    linked = Linked()
    linked.link.publish(run_of(WINDOW_BYTES // 1024 + 1, 1024), [QUEUE], None)
    assert linked.link.full
    linked.link.wait(linked.session)
    linked.link.flush()
    assert linked.session.times_unblocked == 0
    linked.link.acknowledged(linked.epoch, 1)
    assert not linked.link.full
    assert linked.session.times_unblocked == 1


@pytest.mark.requirement("A23.1")
def test_publishers_wait_while_too_many_batches_wait() -> None:
    """The refused messages of more batches would not be kept."""
    linked = Linked()
    for number in range(1, WINDOW_BATCHES + 1):
        linked.publish(number, 1)
    assert not linked.link.full
    linked.publish(WINDOW_BATCHES + 1, 1)
    assert linked.link.full
    linked.link.wait(linked.session)
    linked.link.acknowledged(linked.epoch, 1)
    assert not linked.link.full
    assert linked.session.times_unblocked == 1


def test_questions_are_asked_again_of_a_new_owner() -> None:
    linked = Linked()
    answers: list[Any] = []
    linked.link.request("count", [QUEUE], lambda value, _: answers.append(value))
    successor = RecordedOwner()
    linked.link.owner_elected("n3", 2, successor)
    ((_, request, name, _),) = successor.named("request")
    assert name == "count"
    linked.link.result(linked.epoch + 1, request, [1, 2, 3], None)
    linked.link.result(linked.epoch + 1, request, [1, 2, 3], None)
    assert answers == [[1, 2, 3]]


def test_a_queue_whose_only_node_is_down_is_not_waited_for() -> None:
    linked = Linked()
    answers: list[Any] = []
    linked.link.request("count", [QUEUE], lambda value, _: answers.append(value))
    linked.publish(1)
    linked.link.sole_replica_lost(kept=True)
    assert answers == [UNREACHABLE]
    assert linked.link.unreachable and not linked.link.lost
    back = RecordedOwner()
    linked.link.owner_elected("n2", 2, back)
    assert not linked.link.unreachable
    assert len(back.named("operations")) == 1
    linked.link.sole_replica_lost(kept=False)
    assert linked.link.unreachable and linked.link.lost
    linked.link.owner_elected("n2", 3, back)
    assert not linked.link.unreachable and not linked.link.lost


def test_publishers_do_not_wait_for_a_node_that_stays_away_and_transactions_do() -> None:
    linked, other = Linked(), Linked()
    votes: list[bool] = []
    wide = Confirmation(linked.session, 1, 3, 4, 2)
    linked.publish(1)
    linked.link.publish(run_of(2), [QUEUE], wide)
    linked.link.transact(b"", [], Vote(votes.append))
    other.link.publish(run_of(2), [QUEUE], wide)
    other.link.flush()
    linked.link.sole_replica_lost(kept=True)
    assert linked.session.rejected == []
    linked.link.give_up()
    assert linked.session.rejected == [(1, 1, 2)]
    other.link.acknowledged(other.epoch, 1)
    assert linked.session.rejected == [(1, 1, 2), (1, 3, 4)]
    back = RecordedOwner()
    linked.link.owner_elected("n2", 2, back)
    assert [number for _, number, _ in back.named("operations")] == [1, 2]
    assert votes == []
    linked.link.acknowledged(linked.epoch + 1, 2)
    assert votes == [True]
    assert linked.session.rejected == [(1, 1, 2), (1, 3, 4)] and linked.session.confirmed == []


def test_a_partition_that_died_with_its_memory_is_waited_for_no_more() -> None:
    linked = Linked()
    linked.consume()
    linked.publish(1)
    answers: list[Any] = []
    linked.link.request("count", [QUEUE], lambda value, _: answers.append(value))
    linked.link.abandon()
    assert answers == [NOT_FOUND]
    assert linked.session.confirmed == [(1, 1, 2)]
    assert linked.session.cancelled == [CONSUMER]
    assert linked.link.unacknowledged_bytes == 0


def test_calls_survive_the_way_between_nodes() -> None:
    """Every call of a link to an owner, and of an owner to a link, arrives unchanged."""
    far_owner, sent = RecordedOwner(), []
    link = PartitionLink(4, LinkContext("n1", 77, Latencies(lambda: 0.0)), lambda _: None, lambda _: None)
    session = RecordedSubscriber()
    link.owner_elected("n2", 1, RemoteOwner(4, sent.append))
    link.attach(LinkConsumer(CONSUMER, QUEUE, session, 3, False, True, 2), lambda value, _: None)
    link.publish(run_of(2), [QUEUE], None)
    link.settle(QUEUE, [(4, 5)])
    link.flush()
    link.request("get", [QUEUE, True], lambda value, _: None)
    for parts in sent:
        assert address(parts) == (4, 77)
        receive_for_owner(far_owner, [bytes(part) for part in parts])
    assert [call[0] for call in far_owner.calls] == ["hello", "held", "attach", "operations", "request"]
    terms = far_owner.named("attach")[0][2]
    assert (terms.consumer, terms.queue, terms.limit, terms.exclusive, terms.priority) == (
        CONSUMER, QUEUE, 3, True, 2,
    )  # fmt: skip

    far_link, answers = RecordedFrontEnd(), []
    port = RemoteFrontEnd(4, 77, answers.append)
    port.acknowledged(3, 9)
    port.acknowledged(3, 10, [(9, [(0, 1), (4, 4)]), (10, [(2, 2)])])
    port.delivered(
        3,
        [
            Delivery(CONSUMER, QUEUE, [(7, 8)], True, run_of(2)),
            Delivery(17, QUEUE, [(9, 9), (2, 3)], False, run_of(3)),
            Delivery(18, QUEUE, [(1, 2)], False, keyed_run(["a", "bb"])),
        ],
    )
    port.result(3, 5, [1, "x"], Delivery(GET_LINK, QUEUE, [(8, 8)], False, run_of(1)))
    port.consumer_cancelled(3, CONSUMER)
    port.resync()
    for parts in answers:
        receive_for_front_end(far_link, [bytes(part) for part in parts])
    assert far_link.named("acknowledged") == [(3, 9), (3, 10, [(9, [(0, 1), (4, 4)]), (10, [(2, 2)])])]
    ((_, deliveries),) = far_link.named("delivered")
    assert [(one.consumer, one.ranges, one.redelivered, one.run.count) for one in deliveries] == [
        (CONSUMER, [(7, 8)], True, 2),
        (17, [(9, 9), (2, 3)], False, 3),
        (18, [(1, 2)], False, 2),
    ]
    assert [key for key, _ in by_key(deliveries[2].run)] == ["a", "bb"]
    assert bytes(deliveries[0].run.raw) == run_of(2).raw
    assert far_link.named("result")[0][:3] == (3, 5, [1, "x"])
    assert far_link.named("consumer_cancelled") == [(3, CONSUMER)]
    assert far_link.named("resync") == [()]


@pytest.mark.parametrize(
    "changed", [{"routing_key": "a"}, {"skip": 0}, {"lengths": None}, {"routing_key": None, "skip": 3}]
)
def test_a_delivery_whose_routing_keys_cannot_be_found_is_refused(changed: dict[str, Any]) -> None:
    sent: list[Sequence[bytes | memoryview]] = []
    run = replace(keyed_run(["a", "bb"]) if len(changed) == 1 else run_of(2), **changed)
    RemoteFrontEnd(4, 77, sent.append).delivered(3, [Delivery(CONSUMER, QUEUE, [(7, 8)], True, run)])
    with pytest.raises(MessageError, match="routing key"):
        receive_for_front_end(RecordedFrontEnd(), [bytes(part) for part in sent[0]])


def test_a_new_owner_is_told_which_consumer_has_what_of_a_queue_with_groups() -> None:
    linked = Linked()
    linked.consume(grouped=True)
    linked.deliver(100, 4)
    linked.link.settle(QUEUE, [(101, 101)])
    linked.link.give_back(QUEUE, [(103, 103)], failed=True)
    successor = RecordedOwner()
    linked.link.owner_elected("n3", 2, successor)
    ((_, (leases, holders, _, _)),) = successor.named("held")
    assert leases == {QUEUE: [(100, 100), (102, 102)]}
    assert holders == {QUEUE: [(100, 100, CONSUMER), (102, 102, CONSUMER)]}


def under(token: int, first: int, last: int) -> Delivery:
    """Messages for the consumer under a lease with a token."""
    return Delivery(CONSUMER, QUEUE, [(first, last)], False, run_of(last - first + 1), token)


def test_a_settlement_names_the_lease_under_which_its_messages_came() -> None:
    linked = Linked(tokens=True)
    linked.consume()
    linked.link.delivered(linked.epoch, [under(7, 1, 2), under(8, 3, 4), under(9, 2, 2)])
    assert [token_of(lease) for lease in linked.session.leases] == [7, 8, 9]
    assert {consumer_of(lease) for lease in linked.session.leases} == {CONSUMER}
    held = linked.link.held
    assert held.under(QUEUE, 7 << TOKEN_SHIFT | CONSUMER, [(1, 2)]) == [(1, 1)], "message 2 came again"
    linked.link.settle(QUEUE, [(1, 1)], 7)
    linked.link.settle(QUEUE, [(3, 3)], 8)
    linked.link.give_back(QUEUE, [(4, 4)], failed=True, token=8)
    linked.link.discard(QUEUE, [(2, 2)], 9)
    linked.link.flush()
    ((_, _, data),) = linked.owner.named("operations")
    assert list(read_operations(data)) == [
        Settle(QUEUE, [(1, 1)], 7),
        Settle(QUEUE, [(3, 3)], 8),
        Return(QUEUE, [(4, 4)], True, 8),
        Discard(QUEUE, [(2, 2)], 9),
    ]


@pytest.mark.parametrize("known", [False, True])
def test_a_new_owner_is_told_the_tokens_if_every_node_reads_them(known: bool) -> None:
    linked = Linked(tokens=known)
    linked.consume()
    linked.link.delivered(linked.epoch, [under(7, 1, 2), under(8, 2, 3)])
    successor = RecordedOwner()
    linked.link.owner_elected("n3", 2, successor)
    ((_, (leases, _, tokens, _)),) = successor.named("held")
    assert leases == {QUEUE: [(1, 3)]}
    assert tokens == ({QUEUE: [(1, 1, 7), (2, 3, 8)]} if known else {})
    linked.link.settle(QUEUE, [(1, 1)], 7)
    linked.link.flush_waiting()
    ((_, _, data),) = successor.named("operations")
    assert list(read_operations(data)) == [Settle(QUEUE, [(1, 1)], 7 if known else 0)]

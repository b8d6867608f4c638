"""Windows, queues and gaps, without sockets."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from replication.transport.envelope import Envelope
from replication.transport.flow import MESSAGE_OVERHEAD, BatchOrder, Inbox, PeerOutbox

KIB = 1024


def outbox(queue: int = 64 * KIB, window: int = 16 * KIB, batch: int = 4 * KIB) -> PeerOutbox:
    return PeerOutbox(queue, window, batch)


def batch(incarnation: int, sequence: int, window: int = KIB) -> Envelope:
    return Envelope(incarnation, sequence, 0, 0, window, b"")


def test_messages_of_a_turn_leave_as_one_batch() -> None:
    box = outbox()
    for number in range(5):
        assert box.put([bytes([number])])
    assert box.take() == [[bytes([number])] for number in range(5)]
    assert box.sequence == 1
    assert box.take() is None


def test_the_window_holds_batches_back_until_the_peer_acknowledges() -> None:
    box = outbox()
    for _ in range(20):
        box.put([b"x" * 2 * KIB])
    sent = 0
    while box.take():
        sent += 1
    assert box.in_flight <= 16 * KIB
    assert not box.sendable
    box.acknowledge(sent)
    assert box.in_flight == 0
    assert box.take()


def test_a_message_larger_than_queue_and_window_leaves_alone() -> None:
    box = outbox()
    huge = [b"x" * 200 * KIB]
    assert box.put(huge)
    assert not box.put([b"no room behind it"])
    assert box.take() == [huge]
    assert box.put([b"next"])
    assert box.take() is None
    box.acknowledge(1)
    assert box.take() == [[b"next"]]


def test_a_large_message_does_not_wait_for_a_report_that_is_not_due() -> None:
    """The octets in flight may be too few for a report of the peer, and too many for the next message."""
    box, peer = outbox(window=16 * KIB), Inbox()
    box.put([bytes(3 * KIB)])
    assert box.take()
    peer.arrived(batch(1, 1, 16 * KIB), box.in_flight, 1)
    assert not peer.report_due
    box.put([bytes(15 * KIB)])
    assert box.take()


def test_a_dropped_message_is_a_hole_between_those_before_and_after_it() -> None:
    box = outbox(queue=3 * KIB)
    box.put([b"before" + bytes(2 * KIB)])
    assert not box.put([bytes(2 * KIB)])
    assert box.put([b"after"])
    assert box.dropped_messages == 1
    first = box.take()
    assert first is not None
    assert first[0][0].startswith(b"before")
    assert box.sequence == 1
    assert box.take() == [[b"after"]]
    assert box.sequence == 3


def test_what_was_queued_when_the_connection_broke_leaves_a_hole() -> None:
    box = outbox()
    box.put([b"flying"])
    box.take()
    box.put([b"queued"])
    box.reset()
    assert (box.queued, box.in_flight, box.dropped_messages) == (0, 0, 1)
    box.put([b"later"])
    assert box.take() == [[b"later"]]
    assert box.sequence == 3


def test_order_loss_restart_and_leftovers_are_told_apart() -> None:
    box = Inbox()
    assert box.arrived(batch(7, 1), 10, 1) is BatchOrder.NEXT
    assert box.arrived(batch(7, 2), 10, 1) is BatchOrder.NEXT
    assert box.arrived(batch(7, 4), 10, 1) is BatchOrder.AFTER_GAP
    assert box.arrived(batch(7, 3), 10, 1) is BatchOrder.STALE
    assert box.arrived(batch(9, 1), 10, 2) is BatchOrder.AFTER_GAP
    assert box.arrived(batch(7, 5), 10, 1) is BatchOrder.STALE
    assert box.arrived(batch(9, 2), 10, 2) is BatchOrder.NEXT


def test_what_a_run_left_that_was_never_heard_of_does_not_hide_the_one_after_it() -> None:
    box = Inbox()
    assert box.arrived(batch(9, 1), 10, 2) is BatchOrder.NEXT
    assert box.arrived(batch(8, 2), 10, 1) is BatchOrder.STALE
    assert box.arrived(batch(9, 2), 10, 2) is BatchOrder.NEXT


def test_a_peer_that_lost_its_first_batches_is_not_in_order() -> None:
    assert Inbox().arrived(batch(7, 3), 10, 1) is BatchOrder.AFTER_GAP


@given(st.lists(st.integers(1, 500), max_size=30))
def test_a_report_is_due_after_a_quarter_window(sizes: list[int]) -> None:
    box = Inbox()
    total = 0
    for sequence, size in enumerate(sizes, 1):
        box.arrived(batch(1, sequence, 4 * KIB), size, 1)
        total += size
        assert box.report_due == (total > KIB)
        if box.report_due:
            box.reported()
            total = 0


class Conversation(RuleBasedStateMachine):
    """Any order of sends, losses and acknowledgements: what arrives is in order, and each loss shows."""

    def __init__(self) -> None:
        super().__init__()
        self.box = PeerOutbox(8 * KIB, 4 * KIB, 2 * KIB)
        self.inbox = Inbox()
        self.wire: list[tuple[int, list[bytes]]] = []
        self.number = 0
        self.last = 0
        self.unseen_loss = False

    @rule(size=st.integers(8, 6 * KIB))
    def put(self, size: int) -> None:
        self.number += 1
        self.box.put([self.number.to_bytes(8, "big") + bytes(size - 8)])

    @rule()
    def take(self) -> None:
        batch = self.box.take()
        if batch is None:
            return
        self.wire.append((self.box.sequence, [bytes(parts[0]) for parts in batch]))

    @rule()
    def connection_lost(self) -> None:
        self.wire.clear()
        self.box.reset()

    @rule()
    def arrive(self) -> None:
        if not self.wire:
            return
        sequence, messages = self.wire.pop(0)
        arrival = self.inbox.arrived(batch(5, sequence), 0, 1)
        numbers = [int.from_bytes(message[:8], "big") for message in messages]
        if arrival is BatchOrder.NEXT:
            assert numbers[0] == self.last + 1
        else:
            assert arrival is BatchOrder.AFTER_GAP
            assert numbers[0] > self.last
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        self.last = numbers[-1]
        self.box.acknowledge(sequence)

    @invariant()
    def bounded(self) -> None:
        largest = 6 * KIB + MESSAGE_OVERHEAD
        assert self.box.queued <= 8 * KIB + largest
        assert self.box.in_flight <= KIB + largest


TestConversation = Conversation.TestCase

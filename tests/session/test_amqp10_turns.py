"""A session of AMQP 1.0 takes a share of its client's input in a turn, as one of 0-9-1 does (0028)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.shares import FRAME_WORK, LEAST_PART, PACE_BURST_S, REQUEST_WORK, TURN_WORK
from node.refusal import AccessRefusedError
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.frame_input import FLOW_WORK, FRAME_OCTETS, OCTETS_PART, FrameInput
from node.wire.amqp10.frames import EMPTY_FRAME, FRAMES_AT_ONCE
from node.wire.amqp10.limits import ConnectionLimits
from tests.session.attached import Client, NodeBroker
from tests.session.test_amqp10_memory import Amqp10Port
from tests.session.test_turns import Turns
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import begin, octets_of, receiver, sender, window

ASKED = 200
A_TURN = TURN_WORK // REQUEST_WORK
ATTACHES: list[Composite | bytes] = [
    one for number in range(ASKED) for one in (receiver(number), d.Detach(number, True))
]


class OfTurns(Client):
    """A client whose session's turns the test takes one by one. A permission takes `seconds`."""

    def __init__(self, refusals_per_second: int = 10**9) -> None:
        self.now = self.seconds = 0.0
        super().__init__(Broker(self), ConnectionLimits(refusals_per_second=refusals_per_second))
        self.session._clock = lambda: self.now
        self.turns = Turns()
        self.session._transport = self.turns
        self.looked_up = 0

    @property
    def waits(self) -> bool:
        return self.session.connection.has_input

    def hand_in(self, *sent: Composite | bytes) -> None:
        """The client's octets, in one piece; the session writes nothing yet."""
        self.session.receive(octets_of(*sent))

    def turn(self) -> int:
        """A turn that was asked for: the queues that were looked up in it."""
        assert self.turns.asked
        self.turns.asked, before = 0, self.looked_up
        self.session.take_output()
        return self.looked_up - before


class Broker(NodeBroker):
    def __init__(self, client: OfTurns) -> None:
        super().__init__()
        self.client = client
        self.behind = False
        self.blocked: list[Any] = []

    def ready(self) -> bool:
        return not self.behind

    def wait_ready(self, subscriber: Any) -> None:
        self.blocked.append(subscriber)

    def queue(self, vhost: str, name: str, holder: int) -> Any:
        self.client.looked_up += 1
        self.client.now += self.client.seconds
        raise AccessRefusedError("no")


@pytest.fixture
def client() -> OfTurns:
    return OfTurns()


def test_the_turns_of_a_pipeline_come_without_new_input(client: OfTurns) -> None:
    client.hand_in(*ATTACHES)
    assert 0 < client.looked_up <= A_TURN
    assert not client.turns.reading
    while client.waits:
        assert 0 <= client.turn() <= A_TURN
    assert client.looked_up == ASKED and client.turns.reading


def test_a_client_that_reads_nothing_is_taken_from_all_the_same(client: OfTurns) -> None:
    client.hand_in(*ATTACHES)
    while client.waits:
        assert client.session.take_output(writes=False) == b""
    assert client.looked_up == ASKED


def test_clients_divide_the_work_of_a_turn(client: OfTurns) -> None:
    client.hand_in(*ATTACHES)
    client.turns.clients_waiting = 4
    turns = 0
    while client.waits:
        assert client.turn() <= A_TURN // 4
        turns += 1
    assert turns >= 2 * ASKED // (A_TURN // 4) - 5


def test_a_client_has_a_part_of_each_turn_whatever_the_number_of_clients(client: OfTurns) -> None:
    client.hand_in(*ATTACHES)
    client.turns.clients_waiting = 10_000
    found = [client.turn() for _ in range(10)]
    assert sum(found) >= 10 * (A_TURN // LEAST_PART) // 2


def test_links_whose_queues_take_long_to_look_up_cost_turns(client: OfTurns) -> None:
    """A permission's pattern may need milliseconds for a name that the client has chosen. The time of a turn
    is known when its links are looked up, and counts for the next turns.
    """
    client.hand_in(*ATTACHES[: 4 * A_TURN])
    client.seconds = 0.005
    found = []
    while client.waits:
        found.append(client.turn())
    assert max(found) <= A_TURN
    assert sum(found) / len(found) < A_TURN // 2


@pytest.mark.parametrize("detached", [True, False], ids=["detaches behind", "no detaches"])
def test_links_that_are_refused_come_at_a_bounded_pace(detached: bool) -> None:
    """The client is half a second ahead of its pace at most, by the links of one turn; also where the client
    detaches each link before it can know of the refusal.
    """
    pace = 20
    client = OfTurns(pace)
    client.hand_in(*(ATTACHES if detached else ATTACHES[::2]))
    while client.looked_up < ASKED:
        while client.waits:
            assert client.looked_up <= pace * (client.now + PACE_BURST_S) + 1
            client.turn()
        if client.looked_up < ASKED:
            assert not client.turns.reading
            client.now = client.session.connection.next_deadline()
            client.session.tick()
            assert client.waits and client.turns.asked
    assert client.now >= (ASKED - A_TURN) / pace - PACE_BURST_S


def test_publishes_that_are_refused_count_for_the_pace() -> None:
    client = Client(NodeBroker(), ConnectionLimits(refusals_per_second=1))
    client.send(sender(0, target=d.Target("/exchanges/gone/k")))
    assert not client.session.connection.paused
    client.broker.missing.add("gone")
    client.send(transfer(0), EMPTY_FRAME)
    assert client.session.connection.paused


def test_input_that_was_left_waits_for_the_catalog(client: OfTurns) -> None:
    client.hand_in(*ATTACHES)
    assert isinstance(client.broker, Broker)
    client.broker.behind = True
    assert client.turn() == 0
    assert not client.turns.asked
    client.broker.behind = False
    (waiting,) = client.broker.blocked
    waiting.unblocked()
    while client.waits:
        client.turn()
    assert client.looked_up == ASKED


def test_what_comes_meanwhile_is_behind_what_waits(client: OfTurns) -> None:
    client.hand_in(*ATTACHES)
    client.hand_in(d.End())
    assert not any(isinstance(one.performative, d.End) for one in client.frames)
    while client.waits:
        client.turn()
    assert client.looked_up == ASKED


def test_the_listener_counts_the_clients_whose_input_waits() -> None:
    port = Amqp10Port(granted=1 << 30)
    pipes = [port.connect() for _ in range(3)]
    for pipe in pipes[:2]:
        pipe.client.data_received(octets_of(*[d.Flow(9, 0, 9, 0, echo=True)] * 500))
    port.listener.flush()
    assert [pipe.client.clients_waiting for pipe in pipes] == [2, 2, 2]
    while port.listener.clients_waiting:
        port.listener.flush()
    assert all(pipe.reading for pipe in pipes)


WORK = {
    "an empty frame": (EMPTY_FRAME, FRAME_WORK),
    "a transfer": (transfer(1), FRAME_WORK),
    "a disposition": (octets_of(d.Disposition(d.Role.RECEIVER, 0)), FRAME_WORK),
    "a flow": (octets_of(window(5)), FRAME_WORK + FLOW_WORK),
    "an attach": (octets_of(sender()), FRAME_WORK + REQUEST_WORK),
    "a begin": (octets_of(begin()), FRAME_WORK + REQUEST_WORK),
}


@pytest.mark.parametrize("what", WORK)
def test_the_work_of_a_frame(what: str) -> None:
    octets, work = WORK[what]
    taken = FrameInput(TURN_WORK, ConnectionLimits().refusals_per_second)
    taken.add(octets)
    assert taken.take() is not None and taken.take() is None
    assert taken.share.done == work + len(octets) // OCTETS_PART


def test_frames_are_cut_as_they_are_taken() -> None:
    """A piece of 256 KiB may be 32,768 empty frames."""
    count = 5 * FRAMES_AT_ONCE + 3
    taken = FrameInput(TURN_WORK, ConnectionLimits().refusals_per_second)
    taken.add(EMPTY_FRAME * count + EMPTY_FRAME[:3])
    assert taken.held <= FRAMES_AT_ONCE * (FRAME_OCTETS + len(EMPTY_FRAME)) + count * len(EMPTY_FRAME)
    for number in range(count):
        assert taken.waits, number
        assert taken.take() is not None
    assert taken.take() is None and taken.held == 3
    taken.add(EMPTY_FRAME[3:])
    assert taken.take() is not None and not taken.held


def test_octets_that_are_no_frames_fail_behind_the_frames_in_front_of_them() -> None:
    taken = FrameInput(TURN_WORK, ConnectionLimits().refusals_per_second)
    taken.add(EMPTY_FRAME * (2 * FRAMES_AT_ONCE) + b"\x00\x00\x00\x08\x00\x00\x00\x00")
    for _ in range(2 * FRAMES_AT_ONCE):
        assert taken.failure is None
        assert taken.take() is not None
    assert taken.take() is None and taken.failure is not None

"""A second protocol over the same listener and session core: it publishes, consumes and settles."""

from __future__ import annotations

from typing import Any, cast

import pytest

from node.delivery.settlements import Outcome
from node.ranges.range_set import Range, count_of
from node.session.amqp091.protocol import amqp091
from node.session.amqp091.session import Session
from node.session.client_memory import ClientMemory
from node.session.gate import Gate, GateLimits
from node.session.listener import Client, Listener
from node.wire.amqp091.codec import PROTOCOL_HEADER
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.methods import ConnectionStart
from tests.session.line_protocol import HEADER, LOG_IN_S, LineSession, lines
from tests.session.test_listener import Pipe, Silent
from tests.site import Site
from tests.wire.client import frames

HANDSHAKE_S = 3.0


class Node:
    """A simulated node with a listener for both protocols, or for the first of them alone."""

    def __init__(self, taken: int = 2) -> None:
        self.site = Site("n1")
        self.node, front_end = self.site.nodes["n1"], self.site.front_end("n1")
        self.gate = Gate(GateLimits())
        limits = ConnectionLimits(handshake_timeout=HANDSHAKE_S)
        first, second = amqp091(front_end, limits, self.node.clock), lines(front_end, self.node.clock)
        protocols = (first, second)[:taken]
        self.listener = Listener(
            protocols, HANDSHAKE_S, self.gate, ClientMemory(1 << 20), Silent(), self.node.clock, lambda: None
        )

    def run(self, seconds: float = 0.05) -> None:
        self.site.run(seconds)
        for _ in range(10):
            self.node.input(self.listener.tick)
        self.listener.flush()


class Liner:
    """A client that has connected, and said nothing yet."""

    def __init__(self, node: Node) -> None:
        self.node, self.pipe = node, Pipe()
        self.client: Client = node.listener.new_client()
        self.client.connection_made(cast(Any, self.pipe))

    def send(self, data: bytes) -> None:
        self.node.node.input(lambda: self.client.data_received(data))
        self.node.run()

    def read(self) -> list[str]:
        self.node.run()
        heard, self.pipe.written = self.pipe.written.decode().splitlines(), b""
        return heard

    def say(self, *said: str) -> list[str]:
        self.send("".join(line + "\n" for line in said).encode())
        return self.read()

    def open(self) -> Liner:
        for octet in HEADER:
            self.send(bytes((octet,)))
        assert self.say("log-in guest guest /") == ["ok"]
        return self


@pytest.mark.requirement("A1.4")
def test_two_protocols_share_a_port_and_are_told_apart_by_the_header() -> None:
    node = Node()
    other = Liner(node)
    Liner(node).open()
    other.send(PROTOCOL_HEADER)
    ((_, _, start),) = frames(other.pipe.written)
    assert isinstance(start, ConnectionStart)
    neither = Liner(node)
    neither.send(b"LINES002")
    assert (neither.pipe.written, neither.pipe.closed) == (PROTOCOL_HEADER, True)


def test_a_protocol_is_there_once_the_listener_is_given_it() -> None:
    """Each header begins its own protocol's session; any other beginning is for the first one to answer."""
    for taken, session in ((1, Session), (2, LineSession)):
        node = Node(taken)
        asking, other, neither = Liner(node), Liner(node), Liner(node)
        asking.send(HEADER)
        other.send(PROTOCOL_HEADER)
        neither.send(b"GET / HT")
        assert (type(asking.client.session), asking.pipe.closed) == (session, taken == 1)
        assert asking.pipe.written == (PROTOCOL_HEADER if taken == 1 else b"")
        assert (type(other.client.session), other.pipe.closed) == (Session, False)
        assert isinstance(frames(other.pipe.written)[0][2], ConnectionStart)
        assert (type(neither.client.session), neither.pipe.closed) == (Session, True)
        assert neither.pipe.written == PROTOCOL_HEADER


def test_a_client_declares_publishes_consumes_with_credit_and_settles() -> None:
    client = Liner(Node()).open()
    assert client.say("declare q") == ["ok q 0 0 True"]
    assert client.say("bind q amq.direct k", "publish amq.direct k one") == ["ok", "ok"]
    assert client.say("publish  q two", "publish  q three") == ["ok", "ok"]
    assert client.say("publish  nowhere x", "publish  q four") == ["unroutable", "ok"]
    began, *messages = client.say("consume q 2")
    consumer = began.split(" ")[1]
    numbers = [one.split(" ")[2] for one in messages]
    assert [one.split(" ")[3] for one in messages] == ["one", "two"]
    assert client.say(f"accept {numbers[0]} {numbers[0]}", f"release {numbers[1]} {numbers[1]}") == [
        "ok",
        "ok",
    ]
    assert client.read() == []
    answer, *messages = client.say(f"credit {consumer} 4")
    assert (answer, [one.split(" ")[3] for one in messages]) == ("ok", ["two", "three"])
    number = messages[0].split(" ")[2]
    assert client.say(f"reject {number} {number}", f"cancel {consumer}") == ["ok", "ok"]
    refused, got = client.say("nonsense", "get q")
    assert (refused.startswith("refused"), got.endswith(" four")) == (True, True)


def test_credit_bounds_what_is_delivered_whatever_is_settled() -> None:
    client = Liner(Node()).open()
    client.say("declare q", *(f"publish  q {number}" for number in range(40)))
    began, *messages = client.say("consume q 0")
    consumer = began.split(" ")[1]
    assert messages == []
    answer, *messages = client.say(f"credit {consumer} 30")
    assert (answer, [int(one.split(" ")[3]) for one in messages]) == ("ok", list(range(30)))
    assert client.say("accept 1 30") == ["ok"]
    assert client.say(f"credit {consumer} 31") == ["ok", f"message {consumer} 31 30"]
    assert client.say(f"credit {consumer} 20") == ["ok"]


def test_a_drain_gives_what_is_there_and_takes_the_rest_of_the_credit_away() -> None:
    node = Node()
    client, other = Liner(node).open(), Liner(node).open()
    client.say("declare q", *(f"publish  q {number}" for number in range(3)))
    (began,) = client.say("consume q 0")
    consumer = began.split(" ")[1]
    assert client.say(f"drain {consumer} 2") == [
        f"message {consumer} 1 0", f"message {consumer} 2 1", "ok 2",
    ]  # fmt: skip
    assert client.say(f"drain {consumer} 9") == [f"message {consumer} 3 2", "ok 3"]
    assert other.say("publish  q 3") == ["ok"]
    assert client.read() == []
    assert client.say(f"credit {consumer} 4") == ["ok", f"message {consumer} 4 3"]


def test_a_message_that_a_client_sends_elsewhere_comes_to_another() -> None:
    node = Node()
    client, other = Liner(node).open(), Liner(node).open()
    client.say("declare q", "publish  q one", "publish  q two")
    assert len(client.say("consume q 9")) == 3
    assert client.say("release-elsewhere 1 1", "return-elsewhere 2 2") == ["ok", "ok"]
    assert client.read() == []
    assert [one.split(" ")[-1] for one in other.say("consume q 9")][1:] == ["one", "two"]
    assert client.read() == []


def test_a_browser_sees_copies_and_what_it_settles_stays_in_the_queue() -> None:
    client = Liner(Node()).open()
    client.say("declare q", *(f"publish  q {number}" for number in range(3)))
    began, *messages = client.say("browse q 2")
    consumer = began.split(" ")[1]
    assert began == f"ok {consumer} False  -1", "no delivery can go back"
    assert [one.split(" ")[2:] for one in messages] == [["1", "0"], ["2", "1"]]
    assert client.say("accept 1 1", "reject 2 2", f"drain {consumer} 9") == [
        "ok", "ok", f"message {consumer} 3 2", "ok 3",
    ]  # fmt: skip
    assert client.say("return 3 3", f"cancel {consumer}") == ["ok", "ok"]
    assert [one.split(" ")[-1] for one in client.say(*["get q"] * 4)] == ["0", "1", "2", "nothing"]


def test_a_client_that_leaves_hears_no_answer_to_its_drain() -> None:
    node, answers = Node(), list[str]()
    client = Liner(node).open()
    client.say("declare q")
    (began,) = client.say("consume q 0")
    session = client.client.session
    assert isinstance(session, LineSession)
    core = session._core

    def leave() -> None:
        core.drain(int(began.split(" ")[1]), 5, lambda: answers.append("done"))
        client.client.connection_lost(None)

    node.node.input(leave)
    node.run()
    assert answers == []


def test_a_range_of_deliveries_is_settled_whatever_consumers_they_are_of() -> None:
    node = Node()
    client, other = Liner(node).open(), Liner(node).open()
    client.say(
        "declare q", "declare r", "publish  q one", "publish  q two", "publish  r three", "publish  r four"
    )
    client.say("consume q 2")
    client.say("consume r 2")
    assert client.say("accept 2 3", "release 1 1") == ["ok", "ok"]
    assert [one.split(" ")[-1] for one in other.say("get q", "get q", "get r")] == [
        "one",
        "nothing",
        "nothing",
    ]
    node.node.input(lambda: client.client.connection_lost(None))
    assert [one.split(" ")[-1] for one in other.say("get q", "get r", "get r")] == [
        "nothing",
        "four",
        "nothing",
    ]


class HearingCore:
    """Keeps what a session says of settlements."""

    def __init__(self) -> None:
        self.settled: list[tuple[int, Outcome]] = []

    def settle(self, link: int, ranges: list[Range], outcome: Outcome) -> None:
        self.settled.append((count_of(ranges), outcome))

    def credit(self, link: int, limit: int) -> None: ...


def test_settlements_that_come_together_are_one_for_each_link_and_outcome() -> None:
    client = Liner(Node()).open()
    client.say("declare q", *("publish  q x",) * 5)
    client.say("consume q 9")
    session, core = client.client.session, HearingCore()
    assert isinstance(session, LineSession)
    session._core = cast(Any, core)
    assert client.say("accept 1 1", "return 4 4", "accept 2 3", "accept 5 5") == ["ok"] * 4
    assert core.settled == [(4, Outcome.ACCEPTED), (1, Outcome.RETURNED)]


@pytest.mark.parametrize("settled", ["accept 3 3", "accept 1 3", "accept 0 0"])
def test_an_unknown_delivery_is_an_error_of_that_session_alone(settled: str) -> None:
    node = Node()
    client, other = Liner(node).open(), Liner(node).open()
    client.say("declare q", "publish  q one", "publish  q two", "consume q 2")
    number = "0" if settled == "accept 0 0" else "3"
    assert client.say(settled, "declare r") == [f"closed unknown delivery {number}"]
    assert client.pipe.closed
    node.node.input(lambda: client.client.connection_lost(None))
    assert [one.split(" ")[-1] for one in other.say("get q", "get q", "accept 1 2")] == ["one", "two", "ok"]
    assert other.say("get r")[0].startswith("refused no queue")


def test_what_is_got_and_not_settled_goes_back_when_the_client_leaves() -> None:
    node = Node()
    leaving, staying = Liner(node).open(), Liner(node).open()
    assert leaving.say("declare q", "publish  q one") == ["ok q 0 0 True", "ok"]
    assert leaving.say("get q")[0].endswith(" one")
    assert staying.say("get q") == ["nothing"]
    node.node.input(lambda: leaving.client.connection_lost(None))
    assert staying.say("get q")[0].endswith(" one")
    assert staying.say("purge q", "delete q", "get q") == [
        "ok 0", "ok 0", "refused no queue 'q' in vhost '/'",
    ]  # fmt: skip
    assert staying.say("publish nowhere k x")[0].startswith("refused no exchange")


def test_a_client_of_another_protocol_gets_what_was_published_by_lines() -> None:
    node = Node()
    assert Liner(node).open().say("declare q", "publish  q one") == ["ok q 0 0 True", "ok"]
    got = node.site.client("n1").get("q")
    assert got is not None
    assert got.body == b"one"


@pytest.mark.parametrize(("said", "seconds"), [(b"", HANDSHAKE_S), (b"LINE", LOG_IN_S), (HEADER, LOG_IN_S)])
def test_who_does_not_log_in_must_go_before_the_protocol_is_known_and_after(
    said: bytes, seconds: float
) -> None:
    node = Node()
    client = Liner(node)
    if said:
        client.send(said)
    node.run(seconds / 2)
    assert (client.pipe.closed, node.gate.strangers) == (False, 1)
    node.run(seconds)
    assert client.pipe.closed
    node.node.input(lambda: client.client.connection_lost(None))
    assert (node.gate.sockets, node.gate.strangers) == (0, 0)

"""Clients of simulated nodes: AMQP 0-9-1 state machines that talk octets with real sessions.

A client has one connection with one channel, and ends with the node's process.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.gateway.broker_port import FrontEnd
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.primitives import Method
from tests import messages
from tests.simulation.connection import Connection
from tests.simulation.history import History
from tests.simulation.node import SimulatedNode
from tests.simulation.routes import Path, key_of
from tests.simulation.world import Action, Violation

CHANNEL = 1
LATENCIES_S = (0.0, 0.0, 0.0003, 0.002)
"""The longest time of octets between a client and its node."""

_NAME = struct.Struct(">II")
_HEADER = struct.Struct(">BHIHHQHB")
"""A content header frame without its end, with the delivery mode as its only property (0-9-1 §4.2.6.1)."""

_FRAME = struct.Struct(">BHI")
FRAME_END = b"\xce"

Answered = Callable[[Method], None]


class FrontEndOf(Protocol):
    """Gives the front end of a node's process (`tests.simulation.front_ends.FrontEnds`)."""

    def of(self, node: SimulatedNode) -> FrontEnd: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A process of a node for a client, with the history that records the client's actions."""

    node: SimulatedNode
    front_ends: FrontEndOf
    history: History
    chance: random.Random


class Client:
    """Opens a connection and a channel, and passes each answer to its callback."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.node = place.node
        self.history = place.history
        self.chance = place.chance
        self.id = place.history.number()
        self.life = self.node.life
        self.closed = False
        self._answers: deque[Answered] = deque()
        self.connection = Connection(
            self.node, place.front_ends.of(self.node), self, latency_s=self.chance.choice(LATENCIES_S)
        )
        self._answers.append(lambda _: self._open_channel())
        self.connection.open()

    @property
    def gone(self) -> bool:
        """Whether the process that the client was connected to has ended."""
        return self.node.life != self.life

    @property
    def alive(self) -> bool:
        return not self.gone and not self.closed

    def after(self, delay: float, action: Action) -> None:
        """Do something later, unless the client or its node's process has ended by then."""
        self.node.world.after(delay, lambda: action() if self.alive else None)

    def _open_channel(self) -> None:
        self.request(m.ChannelOpen(), lambda _: self.opened())

    def opened(self) -> None:
        """The client has a new channel."""

    def send(self, method: Method) -> None:
        self.connection.send(CHANNEL, method)

    def request(self, method: Method, answered: Answered) -> None:
        """Send a method, and call back with the answer. Where the broker closes the channel there is no
        answer.
        """
        self._answers.append(answered)
        self.send(method)

    # -- calls of the connection (tests.simulation.connection.Receiver) ---------------------------

    def received(self, method: Method, content: bytes) -> None:
        match method:
            case m.BasicDeliver():
                self.delivered(method, content)
            case m.BasicAck() | m.BasicNack():
                self.settled(method.delivery_tag, method.multiple, isinstance(method, m.BasicAck))
            case m.BasicReturn():
                self.returned(method, content)
            case m.BasicCancel():
                self.cancelled(method.consumer_tag)
            case m.ChannelClose():
                self._answers.clear()
                self.send(m.ChannelCloseOk())
                self.refused(method.reply_code, method.reply_text)
            case m.ConnectionClose():
                self.connection_closed(method.reply_code, method.reply_text)
            case m.ConnectionStart() | m.ConnectionTune():
                pass
            case m.BasicGetOk():
                self.got(method, content)
                self._answers.popleft()(method)
            case _:
                self._answers.popleft()(method)

    def read(self) -> None:
        """Nothing to do: consumers act on all methods that came together."""

    def delivered(self, method: m.BasicDeliver, content: bytes) -> None:
        raise Violation(f"client {self.id} has no consumers but gets a delivery")

    def got(self, method: m.BasicGetOk, content: bytes) -> None:
        raise Violation(f"client {self.id} has asked for no message but gets one")

    def settled(self, tag: int, multiple: bool, positive: bool) -> None:
        raise Violation(f"client {self.id} publishes nothing but gets a confirm")

    def returned(self, method: m.BasicReturn, content: bytes) -> None:
        raise Violation(f"{method.exchange!r} has no route for {method.routing_key!r}: {method.reply_text}")

    def cancelled(self, tag: str) -> None:
        raise Violation(f"the broker cancels consumer {tag} of client {self.id}")

    def connection_closed(self, code: int, text: str) -> None:
        """The broker has closed the connection, as it does where the node leaves."""
        if code == m.ReplyCode.CONNECTION_FORCED and self.node.leaving:
            self.connection.send(0, m.ConnectionCloseOk())
            self.sent_away()
            return
        raise Violation(f"the broker closes the connection of client {self.id}: {code} {text}")

    def sent_away(self) -> None:
        """The node leaves: the client waits for no answer any more."""
        self.closed = True

    def refused(self, code: int, text: str) -> None:
        """The broker has closed the channel."""
        raise Violation(f"the broker closes the channel of client {self.id}: {code} {text}")


def content_of(publisher: int, number: int, persistent: bool, filler: bytes, path: Path) -> bytes:
    """The header and body frames of a message, whose body has its publisher and number."""
    body = _NAME.pack(publisher, number) + filler
    if path.headers:
        mode = 2 if persistent else 1
        return messages.content(body, delivery_mode=mode, headers=dict(path.headers))
    header = _HEADER.pack(2, CHANNEL, 15, 60, 0, len(body), 0x1000, 2 if persistent else 1)
    return header + FRAME_END + _FRAME.pack(3, CHANNEL, len(body)) + body + FRAME_END


def name_of(content: bytes) -> tuple[int, int]:
    """(publisher, number) in a message's body."""
    header_octets = _FRAME.unpack_from(content)[2]
    publisher, number = _NAME.unpack_from(content, 2 * _FRAME.size + header_octets + len(FRAME_END))
    return publisher, number


def publishes_of(
    publisher: int, first: int, quantity: int, persistent: bool, path: Path, chance: random.Random
) -> bytes:
    """The publish frames of a publisher's messages from `first` on, of one size or of several,
    along a path.
    """
    uniform = chance.random() < 0.7
    size = chance.choice((0, 20, 100, 400))
    pieces = []
    for number in range(first, first + quantity):
        key = key_of(path.exchange, publisher, number) or path.key
        method = encode_method(CHANNEL, m.BasicPublish(path.exchange, key, path.mandatory))
        filler = bytes(size if uniform else chance.randrange(200))
        pieces.append(method + content_of(publisher, number, persistent, filler, path))
    return b"".join(pieces)


class Publisher(Client):
    """Publishes to the same queues each time, on a channel with confirms."""

    def __init__(self, place: Place, queues: tuple[str, ...], paths: dict[tuple[str, ...], Path]) -> None:
        self.stopped = False
        self.path = paths[queues]
        self.queues = queues
        # The numbers in the history of messages without an answer, by tag.
        self._unanswered: dict[int, None] = {}
        super().__init__(place)
        self.persistent = self.chance.random() < 0.9
        self.interval_s = self.chance.choice((0.02, 0.05, 0.15))

    @property
    def outstanding(self) -> int:
        return len(self._unanswered)

    def opened(self) -> None:
        self.request(m.ConfirmSelect(), lambda _: self._publish())

    def _publish(self) -> None:
        if not self.stopped:
            self._send()
            self.after(self.interval_s * self.chance.uniform(0.2, 1.8), self._publish)

    def _send(self) -> None:
        quantity = self.chance.choice((1, 1, 2, 5))
        first = self.history.published(self.id, quantity, self.queues, self.persistent)
        self._unanswered.update(dict.fromkeys(range(first, first + quantity)))
        self.connection.send_octets(
            publishes_of(self.id, first, quantity, self.persistent, self.path, self.chance)
        )

    def settled(self, tag: int, multiple: bool, positive: bool) -> None:
        tags = [one for one in self._unanswered if one <= tag] if multiple else [tag]
        answer: Any = self.history.confirm if positive else self.history.reject
        for number in tags:
            self._unanswered.pop(number, None)
            answer(self.id, number, number)

"""A client that publishes, gets and consumes in sequence, and records its observations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.primitives import Method
from tests import messages
from tests.simulation.clients import CHANNEL, Place
from tests.simulation.scripts import Answer, Caller


@dataclass(frozen=True, slots=True)
class Received:
    """A received message. `asked` is the time of the client's request, `time` that of its arrival, in
    seconds.
    """

    body: str
    headers: dict[str, Any]
    redelivered: bool
    tag: int
    asked: float
    time: float
    node: str


@dataclass(slots=True)
class Fate:
    """The outcomes of published messages. `refused` and `returned` are bodies."""

    began: float
    ended: float = 0.0
    refused: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Batch:
    bodies: dict[int, str]
    fate: Fate
    answer: Answer


class Prover(Caller):
    """A client with a channel in confirm mode. `deliveries` are the messages of its consumers."""

    def __init__(self, place: Place) -> None:
        self.deliveries: list[Received] = []
        self._tags = 0
        self._batches: list[_Batch] = []
        self._got: list[bytes] = []
        super().__init__(place)

    def opened(self) -> None:
        self._tags = 0
        self.request(m.ConfirmSelect(), self._confirming)

    def _confirming(self, answer: Method) -> None:
        super().opened()

    @property
    def now(self) -> float:
        return self.node.world.now

    # -- publishing -----------------------------------------------------------------------------

    def publish(
        self, exchange: str, key: str, bodies: list[str], *, mandatory: bool = False, **properties: Any
    ) -> Answer:
        """Publish bodies; the answer's value is their Fate. A property that is callable is called with each
        body.
        """
        answer = Answer()
        self.wait_for(answer)
        octets = self.encoded(exchange, key, bodies, mandatory=mandatory, **properties)
        self.when_open(lambda: self._publish(bodies, octets, answer))
        return answer

    def _publish(self, bodies: list[str], octets: bytes, answer: Answer) -> None:
        tags = range(self._tags + 1, self._tags + len(bodies) + 1)
        self._tags += len(bodies)
        self._batches.append(_Batch(dict(zip(tags, bodies, strict=True)), Fate(self.now), answer))
        self.connection.send_octets(octets)

    def settled(self, tag: int, multiple: bool, positive: bool) -> None:
        for batch in list(self._batches):
            for one in [one for one in batch.bodies if one == tag or (multiple and one < tag)]:
                body = batch.bodies.pop(one)
                if not positive:
                    batch.fate.refused.add(body)
            if not batch.bodies:
                self._batches.remove(batch)
                batch.fate.ended = self.now
                self._pending.remove(batch.answer)
                batch.answer.give(batch.fate)

    def returned(self, method: m.BasicReturn, content: bytes) -> None:
        body = messages.parts(content)[1].decode()
        for batch in self._batches:
            if body in batch.bodies.values():
                batch.fate.returned.add(body)

    def encoded(
        self, exchange: str, key: str, bodies: list[str], *, mandatory: bool = False, **properties: Any
    ) -> bytes:
        """Publishes of persistent messages, with properties as in `publish`."""
        method = encode_method(CHANNEL, m.BasicPublish(exchange, key, mandatory))
        octets = []
        for body in bodies:
            own = {name: value(body) if callable(value) else value for name, value in properties.items()}
            octets.append(method + messages.content(body.encode(), delivery_mode=2, **own))
        return b"".join(octets)

    # -- getting --------------------------------------------------------------------------------

    def get(self, queue: str, *, no_ack: bool = False) -> Answer:
        """Get one message; the answer's value is Received, or None."""
        wrapped, asked = Answer(), self.now
        answer = self.ask(m.BasicGet(queue, no_ack))

        def got() -> None:
            value = None
            if isinstance(answer.value, m.BasicGetOk):
                value = self._received(answer.value, self._got.pop(0), asked)
            wrapped.give(value, answer.error)

        answer.then(got)
        return wrapped

    def got(self, method: m.BasicGetOk, content: bytes) -> None:
        self._got.append(content)

    def _received(self, method: Any, content: bytes, asked: float) -> Received:
        properties, body = messages.parts(content)
        headers = dict(properties.headers or {})
        return Received(
            body.decode(), headers, method.redelivered, method.delivery_tag, asked, self.now, self.node.name
        )

    def delivered(self, method: m.BasicDeliver, content: bytes) -> None:
        self.deliveries.append(self._received(method, content, self.now))

    def ack(self, received: Received) -> None:
        self.send(m.BasicAck(received.tag))

    def nack(self, received: Received, *, requeue: bool) -> None:
        self.send(m.BasicNack(received.tag, False, requeue))

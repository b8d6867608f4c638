"""Consumers that speak to a node's front end themselves, without a protocol, and clients of AMQP 1.0."""

from __future__ import annotations

from functools import partial
from typing import Any

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.ranges.range_set import Numbers, ranges_of
from node.refusal import Refusal
from node.session.ports import ConsumerOptions
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from tests import messages
from tests.cluster.recorders import RecordedSubscriber
from tests.session.attached import Client
from tests.site import Site
from tests.wire.amqp10.performatives import LARGE, octets_of


class Taker(RecordedSubscriber):
    """Takes the messages of one queue, with a consumer that has no credit yet. `said` has in their order the
    messages that came, as octets, and the answers to questions, as words.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        queue: str = "q",
        *,
        no_ack: bool = False,
        holder: int = 0,
        limit: int = 0,
        browse: bool = False,
    ) -> None:
        super().__init__()
        self.site, self.node, self.front_end = site, site.nodes[name], site.front_end(name)
        self.said: list[bytes | str] = []
        self.numbers: list[int] = []
        self.leases: list[int] = []
        """The number of the lease of each message in `numbers`."""
        self.redelivered: list[bool] = []
        self.settled = False
        self.queue = self.front_end.queue("/", queue, holder)
        self._attached: list[int] = []
        options = ConsumerOptions(no_ack, False, 0, limit, browse)
        self.node.input(partial(self.front_end.consume, self, self.queue, options, self._began))
        site.until(lambda: self._attached)
        (self.consumer,) = self._attached

    def _began(self, consumer: int, refusal: Refusal | None) -> None:
        assert refusal is None
        self._attached.append(consumer)

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        self.said += [messages.parts(content)[1] for content in run.contents()]
        self.numbers += numbers
        self.leases += [lease] * len(numbers)
        self.redelivered += [redelivered] * len(numbers)

    @property
    def bodies(self) -> list[bytes]:
        return [one for one in self.said if isinstance(one, bytes)]

    def credit(self, limit: int) -> None:
        self.node.input(lambda: self.front_end.credit(self.consumer, limit))

    def ask_drain(self, limit: int, word: str = "done") -> None:
        self.node.input(lambda: self.front_end.drain(self.consumer, limit, lambda: self.said.append(word)))

    def leave(self) -> None:
        """End the consumer, and wait for that."""
        self.node.input(lambda: self.front_end.leave(self.consumer, lambda: self.said.append("left")))
        self.site.until(lambda: "left" in self.said)

    def drain(self, limit: int) -> list[bytes]:
        """Drain, and wait for that; returns the messages that came meanwhile."""
        before = len(self.said)
        self.ask_drain(limit, "drained")
        self.site.until(lambda: "drained" in self.said[before:])
        *came, last = self.said[before:]
        assert last == "drained"
        return [one for one in came if isinstance(one, bytes)]

    def refuse(self, *numbers: int, failed: bool = True) -> None:
        """Return messages that are not to come to this consumer again, or all that came."""
        ranges = ranges_of(sorted(numbers or self.numbers))
        outcome = Outcome.FAILED_UNDELIVERABLE_HERE if failed else Outcome.UNDELIVERABLE_HERE
        self.node.input(lambda: self.front_end.give_back(self.consumer, ranges, outcome))

    def settle(self) -> None:
        """Settle all that came."""
        ranges = ranges_of(sorted(self.numbers))
        self.node.input(lambda: self.front_end.settle(self.consumer, ranges))


class LinkClient(Client):
    """A client of AMQP 1.0 on a node of the site, with a session on channel 0."""

    def __init__(self, site: Site, name: str, *attaches: Composite, max_frame_size: int = LARGE) -> None:
        self.site, self.node = site, site.nodes[name]
        port: Any = site.front_end(name)
        super().__init__(port, max_frame_size=max_frame_size)
        self.send(*attaches)

    def send(self, *sent: Composite | bytes, channel: int = 0) -> list[Any]:
        self.submit(*sent, channel=channel)
        return self.reads()

    def submit(self, *sent: Composite | bytes, channel: int = 0) -> None:
        """Send without reading, or running the site."""
        octets = octets_of(*sent, channel=channel)
        self.node.input(lambda: self.session.receive(octets))

    def reads(self) -> list[Any]:
        """The performatives that the node writes until it has nothing more to write."""
        self.site.run(0.1)
        found = super().reads()
        return found + self.reads() if found else found

    def lose(self) -> None:
        """The socket is lost."""
        self.node.input(self.session.lost)

    @property
    def payloads(self) -> list[bytes]:
        """The messages that have come, each in one frame."""
        self.reads()
        return [bytes(one.payload) for one in self.frames if isinstance(one.performative, d.Transfer)]

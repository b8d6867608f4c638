"""The one interface between a front end and a partition's owner.

The two may be in one process or on two nodes; `cluster.peers.link_messages` carries the same calls over
the peer transport. Every call names the link's epoch: a front end starts a new epoch whenever it
greets an owner, so that nothing sent before a failover or a lost message is mistaken for news.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from node.message.run import Run

Ranges = list[tuple[int, int]]
"""Closed ranges of sequence numbers, ascending."""

Holders = dict[int, list[tuple[int, int, int]]]
"""By queue: first and last message, and the consumer that has them, ascending."""


GET_LINK: Final = 1
GET_LINK_NO_ACK: Final = 2
GET_LINK_KEPT: Final = 3
"""The link of gets without acknowledgement whose front end has the message removed once it has come. A
delivery names `GET_LINK` if its message is leased until then, and `GET_LINK_NO_ACK` if it is removed already.
"""
FIRST_CONSUMER: Final = 16
"""Consumers of front ends are numbered from here on; the numbers below serve basic.get."""


NOT_FOUND: Final = [404, "the queue was deleted"]
ACCESS_REFUSED: Final = [403, "the queue is in exclusive use"]
"""An owner's answer instead of a value: a 0-9-1 reply code and its reason."""

NOTHING_TO_GET: Final = (0, False)
"""The first arguments of a request that an owner of the release before does not know. That owner takes the
request for a basic.get of the first argument: a queue that does not exist.
"""

STAYS_LEASED: Final = 1
"""The third argument of a get without acknowledgement whose message stays leased, see `GET_LINK_KEPT`."""

UNREACHABLE: Final = [404, "the node that holds the queue is down"]
"""The answer to requests for a queue on one node that is down."""


@dataclass(frozen=True, slots=True)
class ConsumerTerms:
    """The terms of one consumer, which a front end sends to an owner.

    `limit` and `delivered` count messages since the consumer was attached, as delivery-count and
    link-credit do in AMQP 1.0: the owner may send while `delivered` is below `limit`.
    """

    consumer: int
    queue: int
    limit: int
    delivered: int
    no_ack: bool
    exclusive: bool
    priority: int
    joined: int = 0
    activated: int = 0
    """The number that owners have told of a single active consumer, see `FrontEndPort.activity`."""


@dataclass(init=False, slots=True)
class Delivery:
    """Messages of one queue for one consumer; `ranges` are those of the run's messages, in its order."""

    consumer: Final[int]
    queue: Final[int]
    ranges: Final[Ranges]
    redelivered: Final[bool]
    run: Final[Run]

    def __init__(self, consumer: int, queue: int, ranges: Ranges, redelivered: bool, run: Run) -> None:
        self.consumer = consumer
        self.queue = queue
        self.ranges = ranges
        self.redelivered = redelivered
        self.run = run


class OwnerPort(Protocol):
    """The calls of a front end to an owner."""

    def hello(
        self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms], tried: int
    ) -> None:
        """Begin an epoch; these are all the consumers that the front end has on the partition.

        Operation batches up to number `tried` may have reached this or another owner before.
        """

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        """One numbered batch of operations (`node.queue.entry_format`)."""

    def held(self, front_end: int, epoch: int, leases: dict[int, Ranges], holders: Holders) -> None:
        """End of the greeting: the leases, by queue, that the front end still holds, and for queues that
        keep order by key the consumer that holds each lease.
        """

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        """Add a consumer; answered by `result(request)`."""

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        """Remove a consumer; its messages stay leased to the front end."""

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        """New limits, by consumer."""

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        """Ask for something that is answered by `result(request)`: `get`, `purge`, `count`, `redeliver`,
        `browse`, `close`, `stop`, `last`.
        """


class FrontEndPort(Protocol):
    """The calls of an owner to a front end."""

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        """All operation batches up to `number` are committed.

        `refused` names, by batch, messages that queues have not taken, counted from 0 within the batch;
        of batches that were acknowledged before it may name some again.
        """

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        """Messages for the front end's consumers."""

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        """The answer to `attach` or `request`."""

    def consumer_cancelled(self, epoch: int, consumer: int) -> None:
        """The consumer's queue was deleted."""

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        """A consumer of a queue with a single active one has its place in the order of all, and is the
        active one, since a number above all earlier ones, or is not (0).
        """

    def resync(self) -> None:
        """A message was lost on the way: greet the owner again."""

"""The questions that queues, features, routing and traces ask of messages, independent of the protocol.

A run states its format by an octet, and `node.wire.formats` has a class for each format. Only that class
reads the octets of a run. A question takes two steps. `properties_in` cuts a run into stretches of messages
with the same properties, and gives one value of octets for each stretch. The other questions take that value.
Callers do not look into the value; they may use it as a key under which they remember an answer.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from node.message.deaths import Death, FirstPublish
from node.message.facts import Facts
from node.message.requests import RequestMessage
from node.message.run import Run
from node.ranges.range_map import Span


class MessageSyntaxError(ValueError):
    """The message to compose has a value that the format cannot hold, or is too large."""


Asked = tuple[int, int, int, int, int]
"""(first, last, delay, priority, expiration): the wishes of messages in a row to their queues, as their
properties state them. The messages are counted from 0.

The delay is the milliseconds from the publish during which no consumer gets the message; 0 for none. The
priority is 0 where the message states none. The expiration is the milliseconds that the message may wait in a
queue, or NO_EXPIRATION.
"""

NO_EXPIRATION: Final = -1


ToldHeaders = tuple[list[tuple[int, int, bytes]], Callable[[bytes], Facts]]
"""(first, count, key) for each stretch of messages, and the facts that a key tells."""


class Copies(NamedTuple):
    """Further routing keys of a message. `blind`: consumers must not see some of them (`BCC`)."""

    keys: tuple[str, ...]
    blind: bool


class MessageFormat(Protocol):
    """The questions. Each format answers all of them.

    A session has checked the octets of the messages that it took in. For malformed octets a method raises
    the errors of the format's decoder.
    """

    def __hash__(self) -> int:
        """Callers remember answers under format and properties."""

    # -- of a run -------------------------------------------------------------------------------

    def properties_in(self, run: Run) -> Iterator[tuple[int, int, bytes]]:
        """(index of the first message, number of messages, properties) for each stretch of messages with the
        same properties, in order.
        """

    def body_sizes(self, run: Run) -> array[int] | None:
        """The size in octets of each message's body; None when all bodies are as large as the first."""

    def body_size(self, run: Run) -> int:
        """The size in octets of the first message's body."""

    def size_spans(self, run: Run) -> list[Span]:
        """(first, last, octets of the body) for messages in a row with bodies of one size, counted from 0."""

    def asked_in(self, run: Run) -> list[Asked]:
        """The wishes of all messages, in order. Only messages of a `special` run state any."""

    def texts_in(self, run: Run, name: str) -> list[tuple[int, int, bytes | None]]:
        """(first, last, value) of messages in a row with the same value of a property that is a text, by its
        name in AMQP 0-9-1 (`message_id`). The value is None without it.
        """

    def header_keys(self, run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]]:
        """(first, count, key) for each stretch of messages, in order. Messages with one key, of whichever
        run, have the same values of the headers with these names.
        """

    def told_integers(self, run: Run, name: str) -> list[tuple[int, int, int]] | None:
        """(index, count, value) for messages of the run in a row, where the property of applications with
        this name is an integer in each message; None where it is not, or where the format has no quick way to
        it.
        """

    def told_headers(self, run: Run, names: tuple[str, ...]) -> ToldHeaders | None:
        """As `header_keys`, and the facts that a key tells, for expressions that ask for properties of
        applications with these names alone; None where that is no less work than to read the properties.
        """

    def routing_keys(self, run: Run) -> list[str]:
        """The routing key of each message of a run that has more than one (`Run.routing_key` is None)."""

    def by_key(self, run: Run) -> Iterator[tuple[str, Run]]:
        """The messages of any run as runs of one routing key each, in order, with that key."""

    def may_have_copies(self, run: Run) -> bool:
        """Whether a message of a `special` run may have further routing keys. False is certain; True asks the
        caller to look with `copies`.
        """

    # -- of properties --------------------------------------------------------------------------

    def text(self, properties: bytes, name: str) -> bytes | None:
        """A property whose value is a text, by its name in AMQP 0-9-1 (`message_id`); None without it. A
        message of AMQP 1.0 has `group_id` as well.
        """

    def headers(self, properties: bytes) -> Mapping[str, Any]:
        """The application's headers, by name."""

    def facts(self, run: Run, properties: bytes) -> Facts:
        """The facts of a message of the run with these properties, for expressions. A malformed part of the
        properties counts as one that the message lacks.
        """

    def copies(self, properties: bytes) -> Copies:
        """The further routing keys that the publisher states (sender-selected distribution: `CC`, `BCC`).

        Raises PreconditionFailedError where a header with such keys is malformed.
        """

    # -- other messages made of them --------------------------------------------------------------

    def without_blind_copies(self, run: Run) -> Run:
        """The messages without the routing keys that consumers must not see (`BCC`)."""

    def with_delivery_count(self, run: Run, failures: int) -> Run:
        """The messages with the number of their failed deliveries, for consumers (`x-delivery-count`)."""

    def with_lease(self, run: Run, bookmark: str, until: int | None) -> Run:
        """The one message of a run with its bookmark (`x-bookmark`) and the end of its lease in milliseconds
        since the epoch (`x-locked-until`), for a consumer; without the end where that is None.
        """

    def with_offsets(self, run: Run, first: int) -> Run:
        """The messages with their places in a stream (`node.message.streams.X_STREAM_OFFSET`), for a reader:
        `first` and the numbers behind it.
        """

    @property
    def counts_down(self) -> bool:
        """Whether a message states the time that it has left to live, and not the time of its publish."""

    def with_time_left(self, run: Run, left: int, limit: int | None) -> Run:
        """The messages, which expire in `left` milliseconds, with the rest of the time that each has stated.

        `limit` is the queue's time to live in milliseconds: the shorter of both times has made the expiry.
        """

    def dead_letters(self, run: Run, properties: bytes, death: Death, *, routed_anew: bool) -> Run:
        """The messages of a run, which all have these properties, as dead letters of a queue: with the death
        in their headers, and without an expiration. `routed_anew`: the queue states another routing key, so
        the publisher's further keys (`CC`) are taken out.
        """

    def copied_keys(self, properties: bytes) -> list[str]:
        """The further routing keys of a dead letter, as its publisher stated them (`CC`)."""

    def cycles(self, properties: bytes, queue: str) -> bool:
        """Whether the message has died in this queue before, and no client has rejected it since: a cycle of
        dead letters, which is dropped.
        """

    def times_dead(self, properties: bytes) -> int:
        """How often queues have given the message up, as its properties count it."""

    def first_publish(self, properties: bytes) -> FirstPublish | None:
        """Where the message was published before a queue gave it up first; None for a message that has not
        died.
        """

    def without_deaths(self, run: Run, properties: bytes) -> Run:
        """The messages of a run, which all have these properties, without what brokers have told of their
        deaths. An expiration that a dead letter has lost does not come back.
        """

    def with_body(self, run: Run, body: bytes) -> Run:
        """The one message of a run of one routing key, with another body and its own properties."""

    # -- whole messages -------------------------------------------------------------------------

    def composed(
        self,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, Any],
        body: bytes,
        user: str | None,
        body_max: int,
    ) -> Run:
        """A run of one message, from properties by name. `user` is the only user that the property `user_id`
        may name; None admits any.

        Raises MessageSyntaxError for a value that the format cannot hold, and for a body of more than
        `body_max` octets.
        """

    def contents(self, run: Run) -> tuple[dict[str, Any], bytes]:
        """The properties by name, and the body, of a run of one message."""

    # -- requests to the broker -----------------------------------------------------------------

    def request(self, run: Run, most: int) -> RequestMessage:
        """The request in a run of one message, whose body has at most so many octets."""

    def response(
        self,
        run: Run,
        request: RequestMessage,
        place: tuple[str, str],
        plain: Sequence[dict[str, Any]],
        octets: bytes,
    ) -> Run:
        """The response to the request in `run`, for an exchange and a routing key: the list of maps `plain`
        for a `typed` one, and the `octets`, which are JSON, for others. It is as durable as the request.
        """

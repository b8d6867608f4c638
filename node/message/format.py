"""What may be asked of messages, whatever protocol their publisher speaks: one interface, a class a format.

A run states its format by an octet, and `node.wire.formats` has the class of each. Only that class looks
into the octets of a run. A question comes in two steps. `properties_in` cuts a run into stretches of
messages that have the same properties, as one value of octets for each stretch; the other questions take
that value, which is opaque to callers, and serves them as a key to remember an answer by.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from node.message.deaths import Death
from node.message.run import Run
from node.ranges.range_map import Span


class MessageSyntaxError(ValueError):
    """A message that is to be composed has a value that its format cannot hold, or is too large."""


class Asked(NamedTuple):
    """The wishes of a message, as its properties have them, to its queues."""

    delay_ms: int
    """For how long no consumer is to get the message; 0 for no time."""

    priority: int
    """0 where the message has none."""

    expiration_ms: int | None
    """How long the message may wait; None for ever."""


class Copies(NamedTuple):
    """The keys that a message goes by besides its own; `blind`: the message's readers must not see some."""

    keys: tuple[str, ...]
    blind: bool


class MessageFormat(Protocol):
    """The questions. Each format answers all of them.

    Octets that a session has taken in are well formed: a format's errors for others are those of its decoder.
    """

    def __hash__(self) -> int:
        """Answers are remembered by format and properties."""

    # -- of a run -------------------------------------------------------------------------------

    def properties_in(self, run: Run) -> Iterator[tuple[int, int, bytes]]:
        """(index of the first message, how many, properties) for each stretch with the same properties."""

    def body_sizes(self, run: Run) -> array[int] | None:
        """The octets of each message's body, None when all have as many as the first (`body_size`)."""

    def body_size(self, run: Run) -> int:
        """The octets of the first message's body."""

    def size_spans(self, run: Run) -> list[Span]:
        """Spans of messages, counted from 0, whose bodies have as many octets."""

    def may_have_copies(self, run: Run) -> bool:
        """Whether a message of a run that is `special` may ask for copies to further routing keys."""

    # -- of properties --------------------------------------------------------------------------

    def asked(self, properties: bytes) -> Asked:
        """The wishes to queues; only messages of a run that is `special` have any."""

    def text(self, properties: bytes, name: str) -> bytes | None:
        """A property that is a text, by its name of AMQP 0-9-1 (`message_id`); None without one."""

    def headers(self, properties: bytes) -> Mapping[str, Any]:
        """The values that applications give names of their own."""

    def copies(self, properties: bytes) -> Copies:
        """The further routing keys that the publisher asks for (sender-selected distribution).

        Raises PreconditionFailedError where the message asks in a wrong way.
        """

    # -- other messages made of them --------------------------------------------------------------

    def without_blind_copies(self, run: Run) -> Run:
        """The messages without the routing keys that no reader may see."""

    def with_delivery_count(self, run: Run, failures: int) -> Run:
        """The messages with the number of failed deliveries that consumers are told."""

    def dead_letters(self, run: Run, properties: bytes, death: Death, *, routed_anew: bool) -> Run:
        """Messages that all have these properties, as dead letters of a queue: the death is noted, the
        expiration is gone. `routed_anew`: by another key, so that the publisher's further keys count no more.
        """

    def copied_keys(self, properties: bytes) -> list[str]:
        """The further routing keys that a dead letter goes by, as its publisher asked."""

    def cycles(self, properties: bytes, queue: str) -> bool:
        """Whether the message has died in the queue before, and no client has rejected it since."""

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
        """A run of one message, from properties by name. `user` is whom its user-id may name, None for any.

        Raises MessageSyntaxError, also for a body of more than `body_max` octets.
        """

    def contents(self, run: Run) -> tuple[dict[str, Any], bytes]:
        """Properties by name, and the body, of a run of one message."""

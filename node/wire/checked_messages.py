"""Checks single messages of both protocols that come otherwise than from a session, as sessions check
theirs.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from node.message.format import MessageSyntaxError
from node.wire.amqp091.codec import FRAME
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.methods import FRAME_BODY, FRAME_END, FRAME_HEADER
from node.wire.amqp091.native import NATIVE_ALIKE, Alike
from node.wire.amqp091.properties import ORDINARY_VALUES, ContentHeader, PropertyChecks
from node.wire.amqp10.errors import WireError
from node.wire.amqp10.messages import facts_of
from node.wire.amqp10.sections import names_other_user
from node.wire.formats import AMQP_0_9_1

NO_CHANNEL: Final = 0
"""The channel of messages of AMQP 1.0."""

PERSISTENT_BIT: Final = 1
SPECIAL_BIT: Final = 2
"""The traits of contents, as `native.Alike` takes them."""


class CheckedMessage(NamedTuple):
    """The facts that a run states of its messages (`node.message.run.Run`). `largest`: octets of the largest
    frame.
    """

    channel: int
    persistent: bool
    special: bool
    largest: int


class MessageChecks:
    """Checks messages in the name of one user."""

    def __init__(self, user: str | None, body_max: int, alike: Alike | None = NATIVE_ALIKE) -> None:
        """`user` is the only user-id that messages may have; None admits any. `body_max`: octets of the
        largest body, or of the largest message of AMQP 1.0.
        """
        self._properties, self._body_max, self._alike = PropertyChecks(user), body_max, alike
        self._user = None if user is None else user.encode("utf-8", "surrogateescape")

    def check(self, format: int, data: bytes, at: int, end: int) -> CheckedMessage:
        """Check the message between two offsets, in the format `AMQP_0_9_1` or `AMQP_1_0`. Raises
        MessageSyntaxError.
        """
        try:
            return self._frames(data, at, end) if format == AMQP_0_9_1 else self._sections(data, at, end)
        except (ProtocolException, WireError) as error:
            raise MessageSyntaxError(str(error)) from None

    def like(
        self, format: int, data: bytes, at: int, lengths: array[int] | memoryview, found: CheckedMessage
    ) -> tuple[int, int, int]:
        """How many messages from `at` on, of these lengths, are valid and have the facts that `check` has
        found of the message before, but for their frames; the offset behind them, and the octets of their
        largest frame.

        The messages that are counted need no `check`. The one behind them may be valid, or alike, too.
        """
        if self._alike is None or format != AMQP_0_9_1 or len(data) - at < FRAME.size:
            return 0, at, 0
        if FRAME.unpack_from(data, at)[1] != found.channel:
            return 0, at, 0
        traits = PERSISTENT_BIT * found.persistent | SPECIAL_BIT * found.special
        return self._alike(data, at, lengths, traits, self._user, self._body_max)

    def _sections(self, data: bytes, at: int, end: int) -> CheckedMessage:
        if end - at > self._body_max:
            raise MessageSyntaxError(f"a message of {end - at} octets; {self._body_max} are allowed")
        facts = facts_of(data, at, end)
        if self._user is not None and names_other_user(data, facts.sections, self._user):
            raise MessageSyntaxError("the user-id is not the user who has logged in")
        return CheckedMessage(NO_CHANNEL, facts.durable, facts.special, end - at)

    def _frames(self, data: bytes, at: int, end: int) -> CheckedMessage:
        channel, start, behind = _frame(data, at, end, FRAME_HEADER)
        header = self._header(data[start : behind - 1])
        largest, left, at = behind - at, header.body_size, behind
        while at < end:
            number, start, behind = _frame(data, at, end, FRAME_BODY)
            if number != channel:
                raise MessageSyntaxError(f"a frame of channel {number} in a message of channel {channel}")
            left -= behind - 1 - start
            largest, at = max(largest, behind - at), behind
        if left:
            raise MessageSyntaxError(f"other body frames than those of {header.body_size} octets")
        return CheckedMessage(channel, header.traits.persistent, header.traits.special, largest)

    def _header(self, payload: bytes) -> ContentHeader:
        header = self._properties.header(payload)
        if header.body_size > self._body_max:
            raise MessageSyntaxError(f"a body of {header.body_size} octets; {self._body_max} are allowed")
        if header.traits.reply_here:
            raise MessageSyntaxError("reply_to asks for a direct reply, and there is no channel to reply to")
        if header.traits.wide:
            raise MessageSyntaxError(f"headers of more than {ORDINARY_VALUES} values")
        return header


def _frame(data: bytes, at: int, end: int, wanted: int) -> tuple[int, int, int]:
    """The channel of the frame at `at`, the offset of its payload, and the offset behind the frame."""
    start = at + FRAME.size
    if start > end:
        raise MessageSyntaxError("a frame that is cut short")
    kind, channel, size = FRAME.unpack_from(data, at)
    behind = start + size + 1
    if kind != wanted or not channel:
        raise MessageSyntaxError(f"a frame of type {kind} and channel {channel}, where {wanted} belongs")
    if behind > end or data[behind - 1] != FRAME_END:
        raise MessageSyntaxError("a frame that is cut short, or has no end octet")
    return channel, start, behind

"""Tells of messages in a row whether they ask their queue for the same, mostly without decoding them.

Many senders give all messages the same head. A message that begins with the octets of the last head, and has
one body section behind that head, has the facts of the last message.
"""

from __future__ import annotations

from typing import Final

from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.format_codes import OCTETS_4
from node.wire.amqp10.messages import MessageFacts, facts_of
from node.wire.amqp10.sections import names_other_user
from node.wire.amqp10.transfer_rows import TransferRow

_SIZED: Final = 0xA0
"""The encodings from this one on begin with their length."""

_WIDE: Final = 0x10
"""The bit of an encoding that tells of a length of four octets, and not of one."""

_MOST_OCTETS: Final = 4096
"""A session keeps no longer head, because its memory is bounded without the head."""

_SHORTEST_OCTETS: Final = 2
_WIDE_OCTETS: Final = 5
"""The octets of an encoding and its length."""


class KnownHead:
    """The facts of the last row's messages. `durable` and `special` are those of `MessageFacts`."""

    __slots__ = ("_begin", "_encoding", "_user", "durable", "special")

    def __init__(self, user: bytes | None) -> None:
        """`user` is the only user that a message may name; None admits any."""
        self._user = user
        self._begin = b""
        """The head, with the descriptor of the body behind the head; empty for none."""
        self._encoding = 0
        """The encoding of the body, with a length of four octets."""
        self.durable = True
        self.special = False

    def alike(self, row: TransferRow) -> bool:
        """Whether all messages of a row have the same facts, which are here then. False for a message that is
        none, or names another user.
        """
        data, skip, at = row.data, row.skip, row.begin
        first = True
        for length in row.lengths:
            end = at + length
            if not self._known(data, at + skip, end):
                try:
                    facts = facts_of(data, at + skip, end)
                except SectionError:
                    return False
                if self._user is not None and names_other_user(data, facts.sections, self._user):
                    return False
                if not first and (facts.durable is not self.durable or facts.special is not self.special):
                    return False
                self._learn(facts, data, at + skip)
            first = False
            at = end
        return True

    def _known(self, data: bytes, start: int, end: int) -> bool:
        """Whether the message from `start` to `end` has the head, one body section, and nothing else."""
        begin = self._begin
        if not begin or not data.startswith(begin, start):
            return False
        at = start + len(begin)
        if end - at < _SHORTEST_OCTETS or data[at] | _WIDE != self._encoding:
            return False
        if not data[at] & _WIDE:
            return at + 2 + data[at + 1] == end
        return end - at >= _WIDE_OCTETS and at + _WIDE_OCTETS + OCTETS_4.unpack_from(data, at + 1)[0] == end

    def _learn(self, facts: MessageFacts, data: bytes, start: int) -> None:
        self.durable, self.special = facts.durable, facts.special
        self._begin = b""
        sections = facts.sections
        if sections.body is None or sections.footer is not None:
            return
        at = sections.body[0]
        short = at - start <= _MOST_OCTETS
        if short and data[at] == 0 and data[at + 1] == 0x53 and data[at + 3] >= _SIZED:
            self._begin = data[start : at + 3]
            self._encoding = data[at + 3] | _WIDE

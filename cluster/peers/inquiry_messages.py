"""The questions between nodes for HTTP clients and metrics (`cluster.admin.inquiry`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.peers.packing import pack, unpack_part
from cluster.peers.tags import INQUIRY
from replication.forms import expect

ASK_CODE: Final = 1
TELL_CODE: Final = 2


@dataclass(frozen=True, slots=True)
class InquiryQuestion:
    """A question. Each question of the asking process has a `number` of its own."""

    number: int
    name: str
    argument: Any

    def encode(self) -> list[bytes]:
        return [INQUIRY, pack([ASK_CODE, self.number, [self.name, self.argument]])]


@dataclass(frozen=True, slots=True)
class InquiryAnswer:
    """The answer to the question with that number; `value` is None where there is no answer."""

    number: int
    value: Any

    def encode(self) -> list[bytes]:
        return [INQUIRY, pack([TELL_CODE, self.number, self.value])]


def decode_inquiry(parts: Sequence[bytes]) -> InquiryQuestion | InquiryAnswer | None:
    """The message; None for a code that this release does not know. Raises MessageError."""
    code, number, value = unpack_part(parts, (int, int, object))
    if code == ASK_CODE:
        expect(value, (str, object))
        name, argument = value
        return InquiryQuestion(number, name, argument)
    return InquiryAnswer(number, value) if code == TELL_CODE else None

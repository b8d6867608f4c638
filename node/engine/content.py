"""The headers property of messages, read out of their AMQP 0-9-1 content header frames (§4.2.6.1).

Only what routes by headers asks: everything else passes contents on as they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as StructError
from typing import Final

from node.runs import Run
from node.wire.amqp091.codec import FRAME
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import Table, read_headers
from node.wire.amqp091.primitives import SHORT
from node.wire.amqp091.properties import HEADER_FIXED

_CONTENT_TYPE: Final = 1 << 15
_CONTENT_ENCODING: Final = 1 << 14
_HEADERS: Final = 1 << 13
_MORE_FLAGS: Final = 1


def headers_in(run: Run) -> Iterator[tuple[int, int, Table]]:
    """(index of the first, how many, headers) for each stretch of messages with the same properties.

    Raises FieldSyntaxError when a content header is malformed.
    """
    first, previous = 0, None
    for index, content in enumerate(run.contents()):
        (_, _, size) = FRAME.unpack_from(content)
        properties = content[FRAME.size + HEADER_FIXED : FRAME.size + size]
        if properties != previous:
            if previous is not None:
                yield first, index - first, read_headers_property(previous)
            first, previous = index, properties
    if previous is not None:
        yield first, run.count - first, read_headers_property(previous)


def read_headers_property(properties: bytes) -> Table:
    """The headers in a property list, which starts with its flags; empty when there are none.

    Raises FieldSyntaxError.
    """
    try:
        (flags,) = SHORT.unpack_from(properties)
        if not flags & _HEADERS:
            return {}
        at, more = SHORT.size, flags
        while more & _MORE_FLAGS:
            (more,) = SHORT.unpack_from(properties, at)
            at += SHORT.size
        for earlier in (_CONTENT_TYPE, _CONTENT_ENCODING):
            if flags & earlier:
                at += 1 + properties[at]
        return read_headers(properties, at)[0]
    except (StructError, IndexError):
        raise FieldSyntaxError("the properties of a content are cut short") from None

"""The frame-by-frame path of contents: puts one message together from its frames (§4.2.6)."""

from __future__ import annotations

from node.message.run import Run
from node.wire.amqp091.codec import FRAME_OVERHEAD
from node.wire.amqp091.errors import ContentTooLargeError, UnexpectedFrameError
from node.wire.amqp091.methods import BasicPublish
from node.wire.amqp091.properties import ContentHeader, PropertyChecks
from node.wire.amqp091.publish_path import Target

_PUBLISH = (BasicPublish.CLASS_ID, BasicPublish.METHOD_ID)


class IncomingContent:
    """A basic.publish whose content is not complete yet.

    One buffer keeps the frames as they came, so that small frames take no more memory than their octets.
    Empty body frames are legal, and are dropped: otherwise a client could fill the memory with them.
    """

    __slots__ = ("_channel", "_frames", "_header", "_largest", "_missing", "target")

    def __init__(self, channel: int, target: Target):
        self.target = target
        self._channel = channel
        self._header: ContentHeader | None = None
        self._missing = 0
        self._frames = bytearray()
        self._largest = 0

    @property
    def size(self) -> int:
        """The octets of the frames so far."""
        return len(self._frames)

    @property
    def has_header(self) -> bool:
        return self._header is not None

    @property
    def reply_here(self) -> bool:
        """Whether the message asks for a direct reply (see `Traits`)."""
        return self._header is not None and self._header.traits.reply_here

    def add_header(self, frame: bytes, checks: PropertyChecks, body_max: int) -> Run | None:
        """Add the content header frame; return the message where it has no body, else None.

        Raises UnexpectedFrameError for a second header, ContentTooLargeError where the header announces more
        than `body_max` octets, and the errors of `PropertyChecks.header`.
        """
        if self._header is not None:
            raise UnexpectedFrameError("a content header instead of a content body frame", _PUBLISH)
        header = checks.header(frame[FRAME_OVERHEAD - 1 : -1])
        if header.body_size > body_max:
            raise ContentTooLargeError(
                f"a content of {header.body_size} octets; at most {body_max} are accepted", _PUBLISH
            )
        self._header = header
        self._missing = header.body_size
        self._keep(frame)
        return None if self._missing else self._finish(header)

    def add_body(self, frame: bytes) -> Run | None:
        """Add a body frame; return the message with its last one, else None.

        Raises UnexpectedFrameError before a header, and for more octets than the header announced.
        """
        if self._header is None:
            raise UnexpectedFrameError("a content body frame instead of a content header", _PUBLISH)
        octets = len(frame) - FRAME_OVERHEAD
        if octets > self._missing:
            raise UnexpectedFrameError("more content than its header announced", _PUBLISH)
        if octets:
            self._missing -= octets
            self._keep(frame)
        return None if self._missing else self._finish(self._header)

    def _keep(self, frame: bytes) -> None:
        self._frames += frame
        self._largest = max(self._largest, len(frame))

    def _finish(self, header: ContentHeader) -> Run:
        raw = bytes(self._frames)
        self._frames = bytearray()
        return Run(
            self.target.exchange,
            self.target.routing_key,
            self._channel,
            header.traits.persistent,
            1,
            0,
            len(raw),
            None,
            self._largest,
            raw,
            header.traits.special,
        )

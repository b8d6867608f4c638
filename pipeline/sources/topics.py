"""Topics of a running cluster as logs of messages, over the log API (docs/log-api.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.log.blocks import Block
from pipeline.log.client import LogClient
from pipeline.log.nodes import LogApiError
from pipeline.log.options import (
    GONE_CONTINUES,
    TopicOptions,
    TopicRange,
    client_of,
    ranges_between,
    topics_of,
)
from pipeline.log.rows import Columns, Topic
from pipeline.message.batches import batched
from pipeline.message.runs import bookmark_of
from pipeline.sources.message_log import MessageLog, Piece, Rows

_GONE: Final = 410
_IDENTITY: Final = 8
"""The digits of a bookmark that stand for the topic."""

_EARLIEST: Final = "earliest"


class TopicMessages:
    """The streams that options name. A position is the number of a message. Methods raise OptionError,
    NotThereYetError, and as LogClient.
    """

    def __init__(self, options: TopicOptions) -> None:
        self._options = options

    def _client(self) -> LogClient:
        return client_of(self._options, os.environ)

    def logs(self) -> list[MessageLog]:
        """See `MessageSource`. A topic that is made anew is another log."""
        client, options = self._client(), self._options
        found = []
        for topic in topics_of(options, lambda: client.streams(options.vhost)):
            place = client.plan(options.vhost, topic, first=_EARLIEST, end=_EARLIEST).first
            found.append(MessageLog(f"{place[:_IDENTITY]} {options.vhost} {topic}", topic))
        return found

    def pieces(self, log: MessageLog, after: int | None, rows: int) -> Iterator[Piece]:
        """See `MessageSource`. Where retention has passed the position, the source goes on with the oldest
        message or fails, as `onGone` says.
        """
        client, options = self._client(), self._options
        first = options.starting if after is None else bookmark_of(int(log.key[:_IDENTITY], 16), after)
        end = options.ending
        try:
            plan = client.plan(options.vhost, log.name, first=first, end=end, rows=1)
        except LogApiError as error:
            if error.status != _GONE or options.on_gone != GONE_CONTINUES:
                raise
            plan = client.plan(options.vhost, log.name, first=_EARLIEST, end=end, rows=1)
        first, end = plan.first, plan.wanted
        while first < end:
            found = list(ranges_between(options, client, log.name, first, end, rows))
            for one in found:
                yield Piece(log, _number(one.first), _number(one.end), one.rows, tuple(one))
            if not found:
                return
            first = found[-1].end

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Rows]:
        """See `MessageSource`. Raises MalformedError, too."""
        topic, blocks = self.blocks(piece)
        yield from batched(Columns(topic, columns), blocks)

    def blocks(self, piece: Piece) -> tuple[Topic, Iterator[Block]]:
        """The topic of a piece, and the blocks that have its messages."""
        part = TopicRange(*piece.place)
        asked = (self._options.vhost, part.topic, part.first, part.end, part.replicas)
        return Topic(part.topic, part.partition), self._client().blocks(*asked)


def _number(position: str) -> int:
    return int(position[_IDENTITY:], 16)

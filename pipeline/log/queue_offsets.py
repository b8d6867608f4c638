"""The offsets of streaming queries over a queue, and the takes of batch queries.

An offset is `{"version": 1, "queue": NAME, "identity": DIGITS, "reader": NAME, "begin": N, "take": N}`: the
batch that ends there has the messages of this one take, and the first batch of the query is a take behind
`begin`. A queue that was deleted and declared again has another identity.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pipeline.log.nodes import LogApiError
from pipeline.log.options import GONE_FAILS
from pipeline.log.queue_options import MOST_ROWS, QueueOptions, reader_named
from pipeline.log.takes import EMPTY, HELD, HeldMessages, QueueReader, Taker
from pipeline.options import OptionError, nearest

QUEUE_OFFSET_VERSION: Final = 1

TAKEN_AT_ONCE: Final = 100_000
"""The messages of a take, unless the query says otherwise."""

_ABSENT, _GONE = 404, 410
_NO_READER, _ANOTHER_QUEUE = "not_found", "another_queue"

_log = logging.getLogger(__name__)


class TakeGoneError(Exception):
    """The queue does not hold the messages of a take any more."""


class QueueOffset(NamedTuple):
    """An offset; see the module's docstring."""

    queue: str
    identity: str
    reader: str
    begin: int
    take: int


class TakenRange(NamedTuple):
    """A range of one take, which one task reads."""

    queue: str
    partition: int
    reader: str
    number: int
    first: str
    end: str
    rows: int
    replicas: list[str]


def reader_name() -> str:
    """A name that no other reader has."""
    return f"spark-{uuid4().hex}"


def queue_offset(offset: QueueOffset) -> dict[str, Any]:
    """The offset as Spark has it."""
    return {"version": QUEUE_OFFSET_VERSION, **offset._asdict()}


def queue_offset_in(offset: Mapping[str, Any], options: QueueOptions) -> QueueOffset:
    """Raises OptionError for an offset of a newer release, of topics, or of another queue."""
    if offset.get("version") != QUEUE_OFFSET_VERSION:
        raise OptionError(
            f"the checkpoint has offsets of version {offset.get('version')}; this release reads "
            f"{QUEUE_OFFSET_VERSION}: go on with the release that wrote the checkpoint"
        )
    if offset.get("queue") != options.queue:
        other = f"queue {offset['queue']}" if "queue" in offset else "topics"
        raise OptionError(f"the checkpoint is of {other}, not of queue {options.queue}: take another one")
    found = QueueOffset(*(offset[name] for name in QueueOffset._fields))
    if options.reader != found.reader:
        raise OptionError(f"the checkpoint has the reader {found.reader}, not {options.reader}")
    return found


@contextmanager
def _of_queue(client: Taker, options: QueueOptions) -> Iterator[None]:
    """Raises OptionError for a queue that is not there, and where another one has its name."""
    try:
        yield
    except LogApiError as error:
        if error.facts.get("error") == _ANOTHER_QUEUE:
            raise OptionError(
                f"queue {options.queue} was deleted and declared again: the checkpoint is of the one before. "
                f"Begin with another checkpoint"
            ) from error
        if error.status != _ABSENT or error.facts.get("error") == _NO_READER:
            raise
        known = nearest(options.queue, client.queues(options.vhost))
        raise OptionError(
            f"there is no queue {options.queue} in virtual host {options.vhost}{known}"
        ) from error


def _is_gone(error: LogApiError) -> bool:
    """Whether a take has ended by its time, or its reader was released."""
    return error.status == _GONE or error.facts.get("error") == _NO_READER


class TakingQuery:
    """The requests of batch and streaming queries to a queue. Methods raise OptionError, TakeGoneError, and
    as TakeClient.
    """

    def __init__(self, options: QueueOptions, client: Taker) -> None:
        self._options, self._client = options, client

    def _reader(self, name: str) -> QueueReader:
        return reader_named(self._options, name)

    def next(self, at: QueueOffset, rows: int, end: str | None) -> tuple[int, HeldMessages]:
        """The number and the messages of the next take with messages in front of `end`. Numbers of takes that
        have ended, which no batch has had, are passed over.
        """
        number, reader, octets = at.take + 1, self._reader(at.reader), self._options.max_octets
        while True:
            try:
                held = self._client.take(
                    reader, number, rows=rows, octets=octets, end=end, identity=at.identity
                )
            except LogApiError as error:
                later = self._later(reader, number) if _is_gone(error) else number
                if later <= number:
                    raise
                number = later
                continue
            if held.state in (HELD, EMPTY):
                return number, held
            self.gone(f"take {number} of reader {at.reader} is committed: the checkpoint is an older one")
            number = self._later(reader, number)

    def _later(self, reader: QueueReader, number: int) -> int:
        """The first number behind this one that is held, or that of the next take."""
        known = self._client.reader(reader)
        return next((one for one in known.held if one > number), known.next)

    def ranges(self, at: QueueOffset) -> list[TakenRange]:
        """The ranges of the take of an offset; none where the query goes on without the take."""
        octets, name = self._options.task_octets, f"take {at.take} of reader {at.reader}"
        try:
            held = self._client.take(
                self._reader(at.reader), at.take, range_octets=octets, identity=at.identity
            )
        except LogApiError as error:
            if not _is_gone(error):
                raise
            self.gone(f"{name} is not held any more, and its messages went back to the queue")
            return []
        if held.state != HELD:
            self.gone(f"{name} is {held.state}: its messages have been settled")
            return []
        return [
            TakenRange(
                at.queue, held.partition, at.reader, at.take, one.first, one.end, one.rows, held.replicas
            )
            for one in held.ranges
        ]

    def gone(self, what: str) -> None:
        """Raises TakeGoneError, unless the query goes on."""
        if self._options.on_gone == GONE_FAILS:
            raise TakeGoneError(
                f"queue {self._options.queue}: {what}. With onGone continue the query goes on with the "
                f"messages that are ready; some may be written twice"
            )
        _log.warning("queue %s: %s", self._options.queue, what)


class QueueOffsets:
    """The offsets of one query. Each batch is a take, which is settled when the next batch is planned: until
    then the batch may run again. Methods raise OptionError, TakeGoneError, and as TakeClient.
    """

    def __init__(self, options: QueueOptions, client: Taker) -> None:
        self._options, self._client = options, client
        self._query = TakingQuery(options, client)
        self._end: str | None = None
        self._settled = 0

    def initial(self) -> dict[str, Any]:
        """Where a new query begins. A reader that holds takes begins with them: Spark keeps no offset before
        the first batch is planned, and asks again where the driver was lost before that batch was written.
        """
        name = self._options.reader
        with _of_queue(self._client, self._options):
            known = self._client.reader(reader_named(self._options, name))
        begin = (known.held[0] if known.held else known.next) - 1
        return queue_offset(QueueOffset(self._options.queue, known.identity, name, begin, begin))

    def latest(self, start: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
        """Where a batch ends that begins at `start`, with so many messages at most. Without a message the
        offset is `start`. Everything in front of `start` has been written, and is settled.
        """
        at = queue_offset_in(start, self._options)
        with _of_queue(self._client, self._options):
            self._settle(at)
            number, held = self._query.next(at, MOST_ROWS if rows is None else rows, self._end)
        return queue_offset(at._replace(take=number) if held.state == HELD else at)

    def committed(self, end: Mapping[str, Any]) -> None:
        """Everything in front of an offset has been written: its takes are settled."""
        with _of_queue(self._client, self._options):
            self._settle(queue_offset_in(end, self._options))

    def stop_at_the_present_end(self) -> None:
        """No later take has a message that comes from now on."""
        name = self._options.reader
        with _of_queue(self._client, self._options):
            self._end = self._client.reader(reader_named(self._options, name)).end

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[TakenRange]:
        """The ranges of a batch."""
        begin, at = (queue_offset_in(one, self._options) for one in (start, end))
        if begin.take == at.take:
            return []
        with _of_queue(self._client, self._options):
            return self._query.ranges(at)

    def _settle(self, at: QueueOffset) -> None:
        if at.take == at.begin or at.take <= self._settled:
            return
        reader = reader_named(self._options, at.reader)
        try:
            self._client.commit(reader, at.take, at.identity)
        except LogApiError as error:
            if not _is_gone(error):
                raise
            self._query.gone(
                f"take {at.take} of reader {at.reader}, which is written, is not held any more: its messages "
                f"went back to the queue before they were settled"
            )
        self._settled = at.take


class QueueBatch:
    """The takes of a batch query's reader. Methods raise OptionError, TakeGoneError, and as TakeClient."""

    def __init__(self, options: QueueOptions, client: Taker) -> None:
        self._options, self._client = options, client
        self._query = TakingQuery(options._replace(on_gone=GONE_FAILS), client)

    def hold(self) -> list[int]:
        """The takes that the reader holds; where it holds none, new ones with what is ready, up to `maxRows`
        messages. Returns their numbers.
        """
        with _of_queue(self._client, self._options):
            known = self._client.reader(reader_named(self._options, self._options.reader))
            return known.held or self._take(known.next - 1, known.identity, known.end)

    def _take(self, number: int, identity: str, end: str | None) -> list[int]:
        options, found, left = self._options, list[int](), self._options.max_rows
        while left is None or left > 0:
            at = QueueOffset(options.queue, identity, options.reader, number, number)
            rows = TAKEN_AT_ONCE if left is None else min(left, TAKEN_AT_ONCE)
            number, held = self._query.next(at, rows, end)
            if held.state != HELD:
                break
            found.append(number)
            left = None if left is None else left - held.messages
        return found

    def ranges(self, numbers: Sequence[int]) -> list[TakenRange]:
        """The ranges of takes."""
        with _of_queue(self._client, self._options):
            reader = self._options.reader
            identity = self._client.reader(reader_named(self._options, reader)).identity
            offsets = (QueueOffset(self._options.queue, identity, reader, 0, number) for number in numbers)
            return [one for at in offsets for one in self._query.ranges(at)]

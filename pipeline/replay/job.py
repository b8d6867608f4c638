"""The job replay: batch by batch, tasks stage messages, and one commit of an epoch makes a batch visible.

A log of the source has a sink of its own, whose epochs are positions in the log: an epoch is committed when
all messages in front of the position are in their queues. So the ledger tells from where on a replay that is
run again goes on, and no message comes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

from pipeline.log.sinks import Staged
from pipeline.replay.pace import Pace
from pipeline.replay.selection import Selection
from pipeline.sources.message_log import MessageLog, MessageSource, Piece, Run, batches_of, in_turn

BATCH_ROWS: Final = 100_000
"""Messages of a batch, which becomes visible as one."""

PIECE_ROWS: Final = 25_000
"""Messages of a task."""


class ReplayError(Exception):
    """The replay cannot go on."""


class Target(NamedTuple):
    """Where messages go: to a queue, by an exchange under their own routing keys, or, without both, to the
    queue that they come from.
    """

    queue: str | None = None
    exchange: str | None = None

    def place(self, queue: str, routing_key: str) -> tuple[str, str]:
        """Exchange and routing key of a message."""
        if self.exchange is not None:
            return self.exchange, routing_key
        return "", queue if self.queue is None else self.queue


class Ledger(Protocol):
    """The epochs of sinks. Every method may be repeated."""

    def open(self, sink: str) -> int | None:
        """Make the ledger, and drop what former runs have staged and not committed; what is committed."""

    def committed(self, sink: str) -> int | None:
        """The last epoch that is committed; None without any, or without a ledger."""

    def commit(self, sink: str, epoch: int, staged: Sequence[Staged], after: int | None) -> bool:
        """Make what was staged visible as one, where the last committed epoch is `after`, None for none.
        False elsewhere: another run has committed.
        """


class StageTask(NamedTuple):
    """A piece to be staged, in a sink and an epoch."""

    sink: str
    epoch: int
    number: int
    piece: Piece


class Replayed(NamedTuple):
    """The figures of one log, of a replay or a dry run. `skipped`: the replay began there, since a
    former run has replayed what is in front. `octets`: of a dry run.
    """

    log: str
    sink: str
    skipped: int | None
    batches: int
    messages: int
    octets: int | None
    unroutable: int


class Counted(NamedTuple):
    """Messages of a piece that are taken."""

    messages: int
    octets: int


def sink_of(log: MessageLog, selection: Selection, target: Target, name: str | None) -> str:
    """The name of a log's sink: a replay of other messages, or to another target, has another one, unless
    `name` is given.
    """
    parts = (name,) if name is not None else (repr(tuple(selection)), repr(tuple(target)))
    return f"replay-{sha256(chr(0).join((*parts, log.key)).encode()).hexdigest()[:24]}"


class Replay(NamedTuple):
    """A replay: what, where to, how fast, and how it runs."""

    source: MessageSource
    selection: Selection
    target: Target
    ledger: Ledger
    pace: Pace
    name: str | None = None
    batch_rows: int = BATCH_ROWS
    run: Run[Any, Any] = in_turn
    told: Callable[[str], None] = lambda line: None


def replay_messages(replay: Replay, stage: Callable[[StageTask], Staged]) -> list[Replayed]:
    """Replay the logs of the source, one by one. Raises ReplayError, and as source, ledger, tasks."""
    return [_replay_log(replay, log, stage) for log in _wanted(replay.source.logs(), replay.selection)]


def _wanted(logs: Iterable[MessageLog], selection: Selection) -> list[MessageLog]:
    """The logs that may have messages which are taken: those of partitions have several queues."""
    queue = selection.queue
    return [one for one in logs if queue is None or one.name == queue or one.key == one.name]


def _replay_log(replay: Replay, log: MessageLog, stage: Callable[[StageTask], Staged]) -> Replayed:
    sink = sink_of(log, replay.selection, replay.target, replay.name)
    done = begin = replay.ledger.open(sink)
    found = Replayed(log.name, sink, begin, 0, 0, None, 0)
    rows = min(PIECE_ROWS, replay.batch_rows)
    for pieces in batches_of(replay.source.pieces(log, begin, rows), replay.batch_rows):
        epoch = pieces[-1].end
        replay.pace.wait()
        tasks = [StageTask(sink, epoch, number, piece) for number, piece in enumerate(pieces)]
        staged = list(replay.run(stage, tasks))
        messages = sum(one.rows - one.unroutable for one in staged)
        if not replay.ledger.commit(sink, epoch, staged, done):
            raise ReplayError(f"another run replays {log.name}, too: let one of them end")
        replay.pace.passed(messages)
        done = epoch
        unroutable = found.unroutable + sum(one.unroutable for one in staged)
        found = found._replace(
            batches=found.batches + 1, messages=found.messages + messages, unroutable=unroutable
        )
        replay.told(f"{log.name}: {found.messages} messages")
    return found


def count_messages(replay: Replay, count: Callable[[Piece], Counted]) -> list[Replayed]:
    """The figures that a replay would have. Nothing is written. Raises as source, ledger, tasks."""
    found = []
    for log in _wanted(replay.source.logs(), replay.selection):
        sink = sink_of(log, replay.selection, replay.target, replay.name)
        begin = replay.ledger.committed(sink)
        batches = messages = octets = 0
        pieces = replay.source.pieces(log, begin, min(PIECE_ROWS, replay.batch_rows))
        for batch in batches_of(pieces, replay.batch_rows):
            counts = list(replay.run(count, batch))
            batches += 1
            messages += sum(one.messages for one in counts)
            octets += sum(one.octets for one in counts)
        found.append(Replayed(log.name, sink, begin, batches, messages, octets, 0))
    return found

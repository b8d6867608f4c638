"""Readers of a stream, for which retention waits up to their max lag (F8)."""

from __future__ import annotations

from typing import Any, Final

from cluster.owner.readers import ReaderRow
from cluster.peers.reader_requests import NO_READER, READERS_TOLD
from node.message.streams import OffsetKind, StreamOffset
from node.wire.amqp091 import methods as m
from tests.simulation.scripts import LostError, RefusedError, Steps
from tests.simulation.trials.asking import Begin, ask_nodes
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover
from tests.simulation.trials.trial import Trial

PATIENT, HASTY = b"patient", b"hasty"

ENDLESS: Final = (1_000_000, 0, 0)
"""A max lag of more messages than a trial has."""


class Lagging:
    """A stream with two readers. `patient` reads everything before it is removed; retention may pass `hasty`,
    where more than `bound` messages are behind it.
    """

    def __init__(self, trial: Trial, writer: Prover) -> None:
        self.trial, self.writer = trial, writer
        self.bound = trial.chance.randint(2, 6)
        self.left = numbered("m", trial.chance.randint(10, 40))
        self.written: list[str] = []
        self.settled: set[int] = set()
        """The messages that `patient` has settled, counted from 0."""
        self.in_front: dict[int, int] = {0: 0}
        """The messages up to each that `patient` has seen, by number. Before the first: 0."""
        self.places = {PATIENT: 0, HASTY: 0}

    # -- requests -------------------------------------------------------------------------------

    def ask(self, begin: Begin) -> Steps:
        """Ask nodes until one has answered, and check the readers that are told."""
        told = yield from ask_nodes(self.trial, self.trial.name, begin)
        [word, *rows] = told
        # A reader may have been forgotten by a request whose answer was lost.
        known = word in (READERS_TOLD, NO_READER)
        self.trial.expect(known, f"a request about readers is answered with {told}")
        for row in (ReaderRow(*one) for some in rows for one in some):
            self.check(row)

    def check(self, row: ReaderRow) -> None:
        """A place never goes back, and retention passes no reader within its max lag."""
        expect, name = self.trial.expect, row.name.decode()
        former = self.places[row.name]
        expect(row.place >= former, f"{name} goes back from {former} to {row.place}")
        self.places[row.name] = row.place
        if row.name == PATIENT:
            expect(not row.lost, f"retention has passed {row.lost} messages behind {name}")
        elif row.lost:
            expect(row.messages >= self.bound, f"retention passes {name} at {row.messages} messages")
        if row.exact and row.place in self.in_front:
            behind = len(self.written) - self.in_front[row.place]
            found = row.messages + row.lost
            expect(found == behind, f"{row.messages} and {row.lost} lost behind {name} are not {behind}")

    def make(self, name: bytes, max_lag: tuple[int, int, int]) -> Steps:
        begin = StreamOffset(OffsetKind.FIRST)
        yield from self.ask(lambda port, stream, take: port.readers.make(stream, name, begin, max_lag, take))

    def advance(self, name: bytes) -> Steps:
        """Advance a reader behind a message that `patient` has seen, perhaps one that it is behind."""
        place = self.trial.chance.choice(sorted(self.in_front))
        yield from self.ask(lambda port, stream, take: port.readers.advance(stream, name, place + 1, take))
        if name == PATIENT:
            self.settled.update(range(self.in_front[place]))

    def forget(self, name: bytes) -> Steps:
        yield from self.ask(lambda port, stream, take: port.readers.forget(stream, name, take))

    # -- messages -------------------------------------------------------------------------------

    def write(self, count: int) -> Steps:
        bodies, self.left = self.left[:count], self.left[count:]
        try:
            yield self.writer.publish("", self.trial.name, bodies)
        except RefusedError:
            raise LostError from None
        self.written += bodies

    def read(self) -> Steps:
        """Another consumer goes on where `patient` is, misses nothing, and settles some messages."""
        trial, chance = self.trial, self.trial.chance
        prover = trial.prover()
        yield prover.ask(m.BasicQos(0, chance.choice((1, 3, 50))))
        named: dict[str, Any] = {"x-stream-offset": "most-recent", "x-subscription": PATIENT.decode()}
        begun: Any = yield prover.ask(m.BasicConsume(trial.name, arguments=named))
        assert isinstance(begun, m.BasicConsumeOk)
        following = -1
        for _ in range(chance.randint(1, 5)):
            yield from trial.pause()
            come, prover.deliveries = prover.deliveries, []
            for one in come:
                index = self.written.index(one.body)
                missed = set(range(index)) - self.settled if following < 0 else set()
                trial.expect(not missed, f"a consumer begins with {one.body} and misses {missed}")
                trial.expect(following in (-1, index), f"{one.body} comes in the place of {following}")
                following = index + 1
                number = one.headers["x-stream-offset"]
                self.in_front[number] = index + 1
                if chance.random() < 0.9:
                    prover.ack(one)
                    self.settled.add(index)
        yield prover.ask(m.BasicCancel(begun.consumer_tag))


def readers(trial: Trial) -> Steps:
    """Retention of a stream waits for a reader within its max lag, and counts exactly what it takes from one
    that is further behind. Places never go back. Without readers retention goes on.
    """
    chance = trial.chance
    writer = trial.prover()
    octets = chance.choice((8, 20, 60))
    yield trial.queue(writer, queue_type="stream", max_length_bytes=octets)
    lagging = Lagging(trial, writer)
    yield from lagging.make(PATIENT, ENDLESS)
    yield from lagging.make(HASTY, (lagging.bound, 0, 0))
    while lagging.left or len(lagging.settled) < len(lagging.written):
        if lagging.left and chance.random() < 0.6:
            yield from lagging.write(chance.choice((1, 1, 3, 10)))
        if chance.random() < 0.3:
            yield from lagging.read()
        if chance.random() < 0.3:
            yield from lagging.advance(chance.choice((PATIENT, HASTY)))
        if chance.random() < 0.5:
            yield from lagging.ask(lambda port, stream, take: port.readers.show(stream, take))
    for name in (PATIENT, HASTY):
        yield from lagging.forget(name)
    while True:
        found: Any = yield writer.ask(m.QueueDeclare(trial.name, passive=True))
        if found.message_count * len("m 0") <= octets:
            return
        yield from trial.pause()

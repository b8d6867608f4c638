"""Streams, which every reader gets in the same order, from its place on (D17)."""

from __future__ import annotations

from typing import Any, Final

from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Answer, LostError, RefusedError, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.trial import PAUSE_S, Trial

OFFSET: Final = "x-stream-offset"


class Committer(Prover):
    """A writer that publishes to several queues in one transaction."""

    def opened(self) -> None:
        self.request(m.TxSelect(), self._confirming)

    def commit(self, queues: list[str], bodies: list[str]) -> Answer:
        octets = b"".join(self.encoded("", queue, bodies) for queue in queues)
        self.when_open(lambda: self.connection.send_octets(octets))
        return self.ask(m.TxCommit())


class Reader:
    """A consumer that begins at `offset`: a name, or the number of a message."""

    def __init__(self, trial: Trial, prover: Prover, offset: str | int) -> None:
        self.offset = offset
        self.came: list[tuple[int, str]] = []
        """Number and body of each message, in the order of arrival."""
        self._trial, self._prover = trial, prover
        self._unread: list[Received] = []
        self._zeal = trial.chance.choice((0.1, 0.5, 1.0))

    def read(self) -> None:
        """Check what has come, and acknowledge some of it."""
        come, self._prover.deliveries = self._prover.deliveries, []
        for one in come:
            number = one.headers[OFFSET]
            last = self.came[-1][0] if self.came else -1
            self._trial.expect(number > last, f"{one.body} comes as {number} behind {last}")
            self._trial.expect(not one.redelivered, f"{one.body} is redelivered")
            self.came.append((number, one.body))
        self._unread += come
        chance = self._trial.chance
        while self._unread and chance.random() < self._zeal:
            one = self._unread.pop(0)
            if chance.random() < 0.2:
                self._prover.nack(one, requeue=True)
            else:
                self._prover.ack(one)

    def has(self, bodies: set[str]) -> bool:
        return bodies <= {body for _, body in self.came}


def streams(trial: Trial) -> Steps:
    """Each reader gets all messages from its place on, once, in the one order of the stream."""
    chance = trial.chance
    writers = [trial.prover(), *(trial.client(Committer) for _ in range(chance.randint(0, 1)))]
    names = chance.sample(("", " beside"), 2)
    for writer, name in zip((writers[0], writers[-1]), names, strict=True):
        # The queues have partitions of their own, one of which decides about transactions.
        yield trial.queue(writer, name, queue_type=None if name else "stream")
    view = f"{trial.name} view"
    if chance.random() < 0.5:
        yield trial.queue(writers[0], " view", underlying_topic=trial.name)
    left = {one: numbered(f"m{index}", chance.randint(4, 30)) for index, one in enumerate(writers)}
    whole = [list(bodies) for bodies in left.values()]
    readers: list[Reader] = []
    answers: list[Answer] = []
    wanted = chance.randint(2, 3)
    while any(left.values()) or len(readers) < wanted:
        writer = chance.choice(writers)
        if left[writer] and chance.random() < 0.4:
            size = chance.choice((1, 1, 3, 10))
            some, left[writer] = left[writer][:size], left[writer][size:]
            answers.append(_publish(trial, writer, some))
        if len(readers) < wanted and chance.random() < 0.2:
            prover, offset = trial.prover(), _offset(trial, readers)
            yield prover.ask(m.BasicQos(0, chance.choice((1, 3, 50))))
            answer: Any = yield prover.ask(m.BasicConsume(trial.name, arguments={OFFSET: offset}))
            assert isinstance(answer, m.BasicConsumeOk)
            readers.append(Reader(trial, prover, offset))
        for reader in readers:
            reader.read()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    for done in answers:
        yield from _answered(done)
    ends = {f"end {index}" for index in range(len(writers))}
    for index, writer in enumerate(writers):
        whole[index].append(f"end {index}")
        yield from _answered(_publish(trial, writer, [f"end {index}"]))
    while not all(reader.has(ends) for reader in readers):
        for reader in readers:
            reader.read()
        yield from trial.pause()
    _check(trial, readers, whole)
    if view in trial.queues:
        taken: list[Received] = []
        every = [body for bodies in whole for body in bodies]
        yield from trial.take(writers[0], view, every, taken)
        trial.check_taken(every, taken)


def _publish(trial: Trial, writer: Prover, bodies: list[str]) -> Answer:
    if isinstance(writer, Committer):
        return writer.commit([trial.name, f"{trial.name} beside"], bodies)
    # A publish to the queue over the stream goes to the stream.
    over = [name for name in trial.queues if name.endswith(" view")]
    return writer.publish("", trial.chance.choice([trial.name, *over]), bodies)


def _answered(answer: Answer) -> Steps:
    """Raises LostError for a commit that is refused, of which the publishes are in no queue."""
    try:
        yield answer
    except RefusedError:
        raise LostError from None


def _offset(trial: Trial, readers: list[Reader]) -> str | int:
    """A place to begin. The first reader sees everything."""
    seen = [number for reader in readers for number, _ in reader.came]
    if not readers:
        return "first"
    places: list[str | int] = ["first", "next", "last", *seen[:1], *seen[-1:]]
    return trial.chance.choice(places)


def _check(trial: Trial, readers: list[Reader], whole: list[list[str]]) -> None:
    order = readers[0].came
    bodies = [body for _, body in order]
    for mine in whole:
        of_one = [body for body in bodies if body in mine]
        trial.expect(of_one == mine, f"a writer's {mine} come as {of_one}")
    trial.expect(len(bodies) == sum(map(len, whole)), f"{bodies} are too many")
    for reader in readers[1:]:
        came = reader.came
        trial.expect(came == order[len(order) - len(came) :], f"{came} is no end of {order}")
        if isinstance(reader.offset, int):
            trial.expect(came[0][0] == reader.offset, f"{came[0]} comes first, not {reader.offset}")
        elif reader.offset == "first":
            trial.expect(came == order, f"{came} is not all of {order}")

"""Streams, which every reader gets in the same order, from its place on (D17)."""

from __future__ import annotations

from typing import Any, Final

from node.delivery.deeds import Deed, Named
from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Answer, LostError, RefusedError, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.moving import EVERYTHING, Requests
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.trial import PAUSE_S, Trial

OFFSET: Final = "x-stream-offset"


class Committer(Prover):
    """A writer that publishes to several queues in one transaction."""

    def opened(self) -> None:
        self.request(m.TxSelect(), self._confirming)

    def commit(self, queues: list[str], bodies: list[str], **properties: Any) -> Answer:
        """Properties are those of `publish`."""
        octets = b"".join(self.encoded("", queue, bodies, **properties) for queue in queues)
        self.when_open(lambda: self.connection.send_octets(octets))
        return self.ask(m.TxCommit())


class Reader:
    """A consumer that begins at `offset`: a name, or the number of a message."""

    def __init__(self, trial: Trial, prover: Prover, offset: str | int) -> None:
        self.offset = offset
        self.came: list[tuple[int, str]] = []
        """Number and body of each message, in the order of arrival."""
        self.bookmarks: dict[str, str] = {}
        """By body, of a reader that is told."""
        self._trial, self.prover = trial, prover
        self._unread: list[Received] = []
        self._zeal = trial.chance.choice((0.1, 0.5, 1.0))

    def read(self) -> None:
        """Check what has come, and acknowledge some of it."""
        come, self.prover.deliveries = self.prover.deliveries, []
        for one in come:
            number = one.headers[OFFSET]
            last = self.came[-1][0] if self.came else -1
            self._trial.expect(number > last, f"{one.body} comes as {number} behind {last}")
            self._trial.expect(not one.redelivered, f"{one.body} is redelivered")
            self.came.append((number, one.body))
            self.bookmarks[one.body] = one.headers.get("x-bookmark", "")
        self._unread += come
        chance = self._trial.chance
        while self._unread and chance.random() < self._zeal:
            one = self._unread.pop(0)
            if chance.random() < 0.2:
                self.prover.nack(one, requeue=True)
            else:
                self.prover.ack(one)

    def has(self, bodies: set[str]) -> bool:
        return bodies <= {body for _, body in self.came}


class Stream:
    """A stream, its writers and readers, and a queue over it. `whole` has what each writer writes."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        chance = trial.chance
        self.writers = [trial.prover(), *(trial.client(Committer) for _ in range(chance.randint(1, 2)))]
        self.whole = [numbered(f"m{index}", chance.randint(4, 30)) for index in range(len(self.writers))]
        self.left = [list(bodies) for bodies in self.whole]
        self.readers: list[Reader] = []
        self.answers: list[Answer] = []
        self.over: list[str] = []
        """The queue over the stream, once it is there."""
        self.wide = f"{trial.name} wide"
        """A queue over a pattern that takes the stream, placed with another stream."""

    def declare(self) -> Steps:
        """The stream, and a queue beside it. Each has a partition of its own, one of which decides about
        transactions.
        """
        names = self.trial.chance.sample(("", " beside"), 2)
        for writer, name in zip((self.writers[0], self.writers[-1]), names, strict=True):
            yield self.trial.queue(writer, name, queue_type=None if name else "stream")
        yield self.trial.queue(self.writers[-1], " far", queue_type="stream")
        yield self.trial.queue(
            self.writers[0],
            " wide",
            underlying_topic=f"^{self.trial.name}( far)?$",
            default_publish_target=f"{self.trial.name} far",
        )

    def declare_over(self) -> Steps:
        """A queue that has everything, also where it is declared in the middle."""
        yield self.trial.queue(
            self.writers[0], " view", underlying_topic=self.trial.name, recovery_point="epoch"
        )
        self.over.append(f"{self.trial.name} view")

    def begin(self, offset: str | int) -> Steps:
        """Another reader."""
        prover = self.trial.prover()
        yield prover.ask(m.BasicQos(0, self.trial.chance.choice((1, 3, 50))))
        answer: Any = yield prover.ask(m.BasicConsume(self.trial.name, arguments={OFFSET: offset}))
        assert isinstance(answer, m.BasicConsumeOk)
        self.readers.append(Reader(self.trial, prover, offset))

    def write(self, index: int, count: int) -> None:
        """The next messages of a writer. A publish to the queue over the stream goes to the stream."""
        left, writer = self.left[index], self.writers[index]
        bodies, self.left[index] = left[:count], left[count:]
        if isinstance(writer, Committer):
            self.answers.append(writer.commit([self.trial.name, f"{self.trial.name} beside"], bodies))
        else:
            to = self.trial.chance.choice([self.trial.name, *self.over])
            self.answers.append(writer.publish("", to, bodies))

    def read(self) -> None:
        for reader in self.readers:
            reader.read()

    def written(self) -> Steps:
        """Wait for the answers to all that is written."""
        for answer in self.answers:
            yield from answered(answer)

    def check(self) -> None:
        """The first reader has the one order."""
        order = self.readers[0].came
        bodies = [body for _, body in order]
        for mine in self.whole:
            of_one = [body for body in bodies if body in mine]
            self.trial.expect(of_one == mine, f"a writer's {mine} come as {of_one}")
        self.trial.expect(len(bodies) == sum(map(len, self.whole)), f"{bodies} are too many")
        for reader in self.readers[1:]:
            came = reader.came
            self.trial.expect(came == order[len(order) - len(came) :], f"{came} is no end of {order}")
            if isinstance(reader.offset, int):
                self.trial.expect(came[0][0] == reader.offset, f"{came[0]} is not {reader.offset}")
            elif reader.offset == "first":
                self.trial.expect(came == order, f"{came} is not all of {order}")


def streams(trial: Trial) -> Steps:
    """Each reader gets all messages from its place on, once, in the one order of the stream. A queue over the
    stream has all messages once, whenever it is declared. So has a queue over a pattern that takes the
    stream, which is declared before all messages. Messages that have left a queue over the stream come back.
    """
    chance, stream = trial.chance, Stream(trial)
    yield from stream.declare()
    wanted = chance.randint(2, 3)
    while any(stream.left) or len(stream.readers) < wanted:
        index = chance.randrange(len(stream.writers))
        if stream.left[index] and chance.random() < 0.4:
            stream.write(index, chance.choice((1, 1, 3, 10)))
        if len(stream.readers) < wanted and chance.random() < 0.2:
            yield from stream.begin(_offset(trial, stream.readers))
        if not stream.over and chance.random() < 0.1:
            yield from stream.declare_over()
        stream.read()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    if not stream.over:
        yield from stream.declare_over()
    yield from stream.written()
    ends = {f"end {index}" for index in range(len(stream.writers))}
    for index in range(len(stream.writers)):
        stream.whole[index].append(f"end {index}")
        stream.left[index].append(f"end {index}")
        stream.write(index, 1)
    yield from stream.written()
    while not all(reader.has(ends) for reader in stream.readers):
        stream.read()
        yield from trial.pause()
    stream.check()
    every = [body for bodies in stream.whole for body in bodies]
    for queue in (*stream.over, stream.wide):
        taken: list[Received] = []
        yield from trial.take(stream.writers[0], queue, every, taken)
        trial.check_taken(every, taken)
    if chance.random() < 0.5:
        yield from _undone(trial, stream.writers[0], stream.over[0], every)
    yield from _read_on(trial, [number for number, _ in stream.readers[0].came])


def _read_on(trial: Trial, numbers: list[int]) -> Steps:
    """Readers of one subscription, one after the other at any node, miss no message: each begins behind
    messages that clients have settled.
    """
    chance, settled = trial.chance, set[int]()
    named: dict[str, Any] = {OFFSET: "most-recent", "x-subscription": "audit"}
    while settled != set(numbers):
        prover = trial.prover()
        yield prover.ask(m.BasicQos(0, chance.choice((1, 3, 50))))
        begun: Any = yield prover.ask(m.BasicConsume(trial.name, arguments=named))
        assert isinstance(begun, m.BasicConsumeOk)
        first = True
        for _ in range(chance.randint(1, 6)):
            yield from trial.pause()
            come, prover.deliveries = prover.deliveries, []
            for one in come:
                number = one.headers[OFFSET]
                missed = {each for each in numbers if each < number} - settled if first else set()
                trial.expect(not missed, f"a reader begins with {number} and misses {missed}")
                first = False
                if chance.random() < 0.9:
                    prover.ack(one)
                    settled.add(number)
        yield prover.ask(m.BasicCancel(begun.consumer_tag))


def _undone(trial: Trial, prover: Prover, queue: str, every: list[str]) -> Steps:
    """Several clients at a time bring back what the queue has had. Another client takes the messages
    meanwhile: none comes twice before it is acknowledged.
    """
    missing, requests = set(every), Requests(trial)
    while missing:
        wanted, taken = requests.begun + trial.chance.randint(1, 4), list[Received]()
        got: Received | None = None
        while requests.begun < wanted or requests.under_way or got is not None:
            if requests.begun < wanted:
                requests.ask(queue, lambda _: Named(Deed.UNDO, EVERYTHING, searches=True))
            got = yield prover.get(queue)
            if got is not None:
                taken.append(got)
            elif trial.chance.random() < 0.5:
                yield from trial.pause()
        trial.check_taken(every, taken)
        for one in taken:
            prover.ack(one)
        missing -= {one.body for one in taken}


def answered(answer: Answer) -> Steps:
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

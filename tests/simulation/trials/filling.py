"""Queues that decide about each message, and are filled with the past of their stream (D13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from node.wire.amqp091 import methods as m
from tests.inside import state_of
from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.barriers import Meeting
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.order import consume
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.sharing import Held, Sharing
from tests.simulation.trials.streams import Committer, Reader, answered
from tests.simulation.trials.trial import PAUSE_S, Trial

PADDING: Final = "x" * 60_000
"""A header of each message: a part of the past has a few messages."""

KEYS: Final = 3

LOOK_S: Final = 0.002
LOOKS: Final = 50
"""A client looks so often, in steps of so many seconds, whether the queue is being filled."""

Sorting = Callable[[int], Any]
"""The place of a message, which has this number among all, in the order of deliveries."""


def number_of(body: str) -> int:
    return int(body.split()[1])


def headers_of(body: str) -> dict[str, Any]:
    number = number_of(body)
    return {"n": number, "k": number % KEYS, "stop": number % 5 == 4, "padding": PADDING}


def level_of(number: int) -> int:
    return number * 7 % 4


@dataclass(frozen=True)
class Form:
    """The argument by which a queue decides about each message. `sorting` is None where only the messages of
    one key have an order.
    """

    argument: dict[str, Any]
    takes: Callable[[int], bool] = field(default=lambda number: True)
    sorting: Sorting | None = field(default=lambda number: number)


FORMS: Final = {
    "filter": Form({"filter": "n % 2 = 0"}, takes=lambda number: number % 2 == 0),
    "priority": Form({"max_priority": 3}, sorting=lambda number: (-level_of(number), number)),
    "rank": Form({"priority_expression": "n"}, sorting=lambda number: -number),
    "key": Form({"key": "k"}),
    "group": Form({"group_by": "k"}, sorting=None),
    "barrier": Form({"barrier_expression": "stop"}),
}


class Filling:
    """A stream with messages, and a queue over the stream that is declared in the middle of the writing."""

    def __init__(self, trial: Trial) -> None:
        self.trial, chance = trial, trial.chance
        self.form_name = chance.choice(sorted(FORMS))
        self.form = FORMS[self.form_name]
        self.writer = trial.prover()
        self.committer = trial.client(Committer) if chance.random() < 0.3 else None
        self.left = numbered("m", chance.randint(12, 70))
        self.all = list(self.left)
        self.answers: list[tuple[Answer, list[str]]] = []
        self.reader = Reader(trial, trial.prover(), "first")
        self.queue = f"{trial.name} over"

    def begin(self) -> Steps:
        """The stream, and its reader."""
        trial = self.trial
        if self.committer is not None:
            yield trial.queue(self.committer, " beside")
        yield trial.queue(self.writer, queue_type="stream")
        yield from consume(self.reader.prover, trial.name, 50, stream_offset="first", tell=True)

    def write(self) -> None:
        """The next messages, some in a transaction with a queue in another partition. A writer waits for the
        other one, so that all messages are in order.
        """
        chance = self.trial.chance
        if self.answers and not self.answers[-1][0].given:
            return
        some = [self.left.pop(0) for _ in range(min(len(self.left), chance.choice((1, 3, 5))))]
        if self.committer is not None and chance.random() < 0.4:
            queues = [self.trial.name, f"{self.trial.name} beside"]
            answer = self.committer.commit(queues, some, headers=headers_of, priority=_priority)
        else:
            answer = self.writer.publish("", self.trial.name, some, headers=headers_of, priority=_priority)
        self.answers.append((answer, some))

    def write_all(self, left: int = 0) -> Steps:
        """Write until so many messages are left."""
        while len(self.left) > left:
            self.write()
            self.reader.read()
            yield from self.trial.pause(self.trial.chance.choice((0.0, 0.01)))

    def confirmed(self) -> set[str]:
        return {body for answer, some in self.answers if answer.given for body in some}

    def written(self) -> Steps:
        """Wait for the answers to all that is written."""
        for answer, _ in self.answers:
            yield from answered(answer)

    def point(self) -> tuple[str, int]:
        """A recovery point, and the number of the first message behind it."""
        seen = self.reader.came
        if seen and self.trial.chance.random() < 0.5:
            _, body = self.trial.chance.choice(seen)
            return self.reader.bookmarks[body], number_of(body)
        return "epoch", 0

    def declare(self, prover: Prover, point: str, writes: int = 0, moves: float = 0.7) -> Steps:
        """Declare the queue, and write until `writes` messages are left. The owner changes meanwhile with the
        probability `moves`.
        """
        arguments = {"underlying_topic": self.trial.name, "recovery_point": point, **self.form.argument}
        answer = self.trial.queue(prover, " over", **arguments)
        if self.trial.chance.random() < moves:
            yield from self._move()
        yield from self.write_all(writes)
        yield answer

    def _move(self) -> Steps:
        """Have the owner change when the queue has some of its past, if that is to be seen."""
        trial, parts = self.trial, self.trial.chance.randint(0, 6)
        for _ in range(LOOKS):
            owned = trial.owner_of(self.queue)
            if (
                owned is not None
                and owned[1].id in state_of(owned[0].broker.owners[owned[1].partition]).filling
            ):
                if not parts:
                    trial.move(*owned)
                    return
                parts -= 1
            yield from trial.pause(LOOK_S)

    def wanted(self, first: int) -> list[str]:
        """The messages of the queue, of those from a number on, in the order of the stream."""
        found = [body for body in self.all if number_of(body) >= first and self.form.takes(number_of(body))]
        if self.form_name != "key":
            return found
        last = {number_of(body) % KEYS: body for body in found}
        return [body for body in found if body in last.values()]

    @property
    def barriers(self) -> set[str]:
        return {body for body in self.all if self.form_name == "barrier" and headers_of(body)["stop"]}

    def check_group(self, sharing: Sharing, held: Held) -> None:
        if self.form_name == "group":
            groups = {body: str(number_of(body) % KEYS) for body in self.all}
            sharing.check_group(held, groups, self.all)

    def check_order(self, taken: list[Received]) -> None:
        """A message that was lost on its way, or with its owner, comes later, and marked redelivered."""
        came = [number_of(one.body) for one in taken if self.trial.calm or not one.redelivered]
        if self.form.sorting is not None:
            wanted = sorted(came, key=self.form.sorting)
            self.trial.expect(came == wanted, f"{came} came in this order, and should in {wanted}")
            return
        for key in range(KEYS):
            of_key = [number for number in came if number % KEYS == key]
            self.trial.expect(of_key == sorted(of_key), f"{of_key} of one group came in this order")


def _priority(body: str) -> int:
    return level_of(number_of(body))


def filling(trial: Trial) -> Steps:
    """A new queue has each message of the past from its recovery point on that it takes, once, and at its
    place in the queue's order; and no earlier one. A purge removes them all, also those that have yet to come
    in.
    """
    clients = Filling(trial)
    yield from clients.begin()
    match clients.form_name:
        case "barrier":
            yield from _shared(clients)
        case "key":
            yield from _taken(clients)
        case _:
            yield from trial.chance.choice((_taken, _purged, _shared))(clients)


def _taken(clients: Filling) -> Steps:
    """Declare, and get all, perhaps while the queue is filled."""
    trial, chance, declarer = clients.trial, clients.trial.chance, clients.trial.prover()
    at_once = chance.random() < 0.6
    yield from clients.write_all(0 if at_once else chance.randint(1, 6))
    yield from clients.written()
    point, first = clients.point()
    yield from clients.declare(declarer, point)
    yield from clients.written()
    taken: list[Received] = []
    yield from trial.take(declarer, clients.queue, clients.wanted(first), taken)
    trial.check_taken(clients.wanted(first), taken)
    clients.check_order(taken)


def _purged(clients: Filling) -> Steps:
    """Declare and purge. The queue has the messages of after the purge, at least, and none of before."""
    trial, chance, declarer = clients.trial, clients.trial.chance, clients.trial.prover()
    yield from clients.write_all(chance.randint(2, 6))
    point, first = clients.point()
    yield from clients.declare(declarer, point, len(clients.left), moves=0.3)
    before = clients.confirmed()
    yield chance.choice((0.0, 0.0005, 0.002))
    yield trial.chance.choice((declarer, clients.writer)).ask(m.QueuePurge(clients.queue))
    late = list(clients.left)
    yield from clients.write_all()
    yield from clients.written()
    taken: list[Received] = []
    wanted = clients.wanted(first)
    yield from trial.take(declarer, clients.queue, [body for body in wanted if body in late], taken)
    trial.check_taken([body for body in wanted if body not in before], taken)
    clients.check_order(taken)


def _shared(clients: Filling) -> Steps:
    """Declare, and have consumers share the messages, while the queue is filled, and while more come."""
    trial, chance = clients.trial, clients.trial.chance
    yield from clients.write_all(chance.randint(0, 6))
    # A barrier at the front would go to the first consumer alone.
    point, first = ("epoch", 0) if clients.form_name == "barrier" else clients.point()
    provers = [trial.prover() for _ in range(chance.randint(1, 3))]
    yield from clients.declare(provers[0], point, len(clients.left))
    sharing = Sharing(trial, provers, lambda held: clients.check_group(sharing, held))
    for prover in provers:
        yield from consume(prover, clients.queue, chance.randint(1, 6))
    wanted, barriers = clients.wanted(first), clients.barriers
    meeting = Meeting(trial, sharing, provers, clients.all, barriers)
    while clients.left or sharing.missing(set(wanted) - barriers) or sharing.unsettled() or meeting.missing:
        if clients.left and chance.random() < 0.3:
            clients.write()
        meeting.read()
        sharing.act()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    yield from clients.written()
    strange = [body for one in sharing.deliveries if (body := one.received.body) not in wanted]
    trial.expect(not strange, f"{strange[:5]} came, which should not be there")

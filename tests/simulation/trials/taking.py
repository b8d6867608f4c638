"""Readers that take numbered batches of a queue's messages, beside consumers (F8)."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Any, Final

from cluster.owner.log_reading import NamedTake, NotAppliedError, TakeOverError, cut_blocks, read_taken
from cluster.owner.walking import EntriesGoneError
from node.ranges.range_set import Range, RangeSet
from node.refusal import Refusal
from pipeline.log.blocks import read_block
from pipeline.log.rows import Topic, rows_of_blocks
from replication.journal import DamagedEntryError
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import Steps
from tests.simulation.trials.asking import Begin, Told, ask_nodes
from tests.simulation.trials.prover import Received
from tests.simulation.trials.trial import PAUSE_S, Trial

ROWS: Final = (1, 2, 5)


class TakesReader:
    """A reader of the trial's queue, which asks any nodes, and has numbers behind `first`. `held` has the
    messages of each number that is not known to be committed, `bodies` those that were read, and `committed`
    the last number of a commit.
    """

    def __init__(self, trial: Trial, name: str, first: int = 0) -> None:
        self._trial, self.name, self.first = trial, name.encode(), first
        self.held: dict[int, list[Range]] = {}
        self.bodies: dict[int, list[str]] = {}
        self.committed = self.last = first

    def _ask(self, begin: Begin) -> Told:
        return ask_nodes(self._trial, self._trial.name, begin)

    # -- steps ----------------------------------------------------------------------------------

    def take(self, number: int, others: RangeSet) -> Steps:
        """Take a new number, or an old one again. `others` are the messages of all other numbers."""
        rows = self._trial.chance.choice(ROWS)
        told = yield from self._ask(
            lambda port, queue, take: port.takes.take(queue, self.name, number, rows, 0, take)
        )
        if number <= self.committed:
            self._trial.expect(told[0] == "settled", f"take {number}, which is committed, is {told[0]}")
        elif number <= self.last:
            same = told[0] == "held" and _ranges(told) == self.held[number]
            self._trial.expect(same, f"take {number} is {told}, and was {self.held[number]}")
        elif told[0] != "empty":
            self._trial.expect(told[0] == "held", f"take {number}, the next one, is {told[0]}")
            ranges = _ranges(told)
            twice = [part for one in ranges for part in others.intersection(*one)]
            self._trial.expect(not twice, f"take {number} has {twice}, which other numbers have")
            self.last, self.held[number] = number, ranges

    def commit(self, number: int) -> Steps:
        """Commit the takes up to a number."""
        for one in range(self.committed + 1, number + 1):
            yield from self.read(one)
        told = yield from self._ask(
            lambda port, queue, take: port.takes.settle(queue, self.name, number, take)
        )
        self._trial.expect(told[0] == "settled", f"a commit of {number}, which is held, is {told[0]}")
        self.committed = max(self.committed, number)

    def give_up(self) -> None:
        """Ask some node for the next take, and wait for no answer."""
        nodes, number = self._trial.nodes.ready_nodes(), self.last + 1
        if not nodes:
            return
        node = self._trial.chance.choice(nodes)
        port = self._trial.nodes.place(node).front_ends.of(node)

        def asked() -> None:
            with suppress(Refusal):
                queue = port.queue("/", self._trial.name, 0)
                port.takes.take(queue, self.name, number, 1, 0, lambda _: None)

        node.input(asked)

    def release(self) -> Steps:
        """Give back the takes that are not committed."""
        # The take behind the last one may be under way.
        number = self.last + 1
        told = yield from self._ask(
            lambda port, queue, take: port.takes.release(queue, self.name, number, take)
        )
        self._trial.expect(told[0] == "released", f"a release is {told[0]}")

    def shown(self) -> Told:
        """The readers of the queue."""
        return (yield from self._ask(lambda port, queue, take: port.takes.show(queue, take)))

    def read(self, number: int) -> Steps:
        """Read the messages of a held take, of any replica, until one has told them."""
        while True:
            nodes = self._trial.nodes.ready_nodes()
            found = self._read_at(self._trial.chance.choice(nodes), number) if nodes else None
            if found is not None:
                known = self.bodies.setdefault(number, found)
                self._trial.expect(known == found, f"take {number} is read as {found}, and was {known}")
                return
            yield from self._trial.pause(0.01)

    def _read_at(self, node: SimulatedNode, number: int) -> list[str] | None:
        """The bodies that a node's replica has; None where it cannot tell them."""
        definition = node.broker.catalog.state.queues.get(("/", self._trial.name))
        owner = None if definition is None else node.broker.owners.get(definition.partition)
        group = None if owner is None else node.broker.host.groups.get(owner.partition)
        if definition is None or owner is None or group is None:
            return None
        ranges, octets = self.held[number], b""
        at, end = ranges[0][0], ranges[-1][1] + 1
        take = NamedTake(self.name, number)
        try:
            while at < end:
                step = read_taken(owner.machine, group.log, definition.id, take, at, end)
                octets, at = octets + b"".join(filter(None, cut_blocks(step))), step.next
        except (NotAppliedError, EntriesGoneError, DamagedEntryError):
            return None
        except TakeOverError:
            self._trial.expect(False, f"take {number} is over at {node.name}")
        source, blocks = BytesIO(octets), []
        while source.tell() < len(octets):
            blocks.append(read_block(source.read, source.tell()))
        rows = rows_of_blocks(Topic(self._trial.name, owner.partition), blocks)
        return [row.body.decode() for row in rows if row.body is not None]


def _ranges(told: list[Any]) -> list[Range]:
    """The messages that an answer says are held."""
    return [(first, last) for first, last in told[2]]


class Taking:
    """The readers of a trial, one after the other. `done` are the messages of committed takes."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.done: list[str] = []
        self._committed = RangeSet()
        self.reader = TakesReader(trial, "r0")

    def act(self) -> Steps:
        """One deed of the reader."""
        reader, chance = self.reader, self._trial.chance
        deed = chance.random()
        if deed < 0.4:
            yield from reader.take(reader.last + 1, self._others())
        elif deed < 0.6 and reader.last > reader.first:
            yield from reader.take(chance.randint(reader.first + 1, reader.last), self._others())
        elif deed < 0.75 and reader.last > reader.committed:
            yield from reader.read(chance.randint(reader.committed + 1, reader.last))
        elif deed < 0.95 and reader.last > reader.committed:
            yield from reader.commit(chance.randint(reader.committed + 1, reader.last))
            self._note()
        elif deed > 0.97 or (deed > 0.75 and reader.last == reader.first):
            reader.give_up()
            yield from self.release()

    def _note(self) -> None:
        """The takes of the reader up to its commit are done."""
        reader = self.reader
        for number in [one for one in sorted(reader.held) if one <= reader.committed]:
            ranges = reader.held.pop(number)
            self._committed.update(ranges)
            self.done += reader.bodies[number]

    def _others(self) -> RangeSet:
        found = self._committed.copy()
        for ranges in self.reader.held.values():
            found.update(ranges)
        return found

    def release(self) -> Steps:
        """Release the reader; another one of the same name comes. Requests of the one before that no node has
        answered may still be under way.
        """
        yield from self.reader.release()
        told = yield from self.reader.shown()
        _, rows, first, _ = told
        self._trial.expect(not rows, f"the queue has readers {rows} behind the release of its only one")
        self.reader = TakesReader(self._trial, "r0", first)


def taking(trial: Trial) -> Steps:
    """Each message is in one take, or comes to a consumer. A number gives the same messages. The messages
    that a commit has settled never come again, and all others come.
    """
    chance, client, received = trial.chance, trial.prover(), list[Received]()
    yield trial.queue(client)
    readers, wanted = Taking(trial), list[str]()
    for batch in range(chance.randint(2, 6)):
        bodies = [f"{batch} {number}" for number in range(chance.randint(1, 8))]
        yield client.publish("", trial.name, bodies)
        wanted += bodies
        for _ in range(chance.randint(2, 8)):
            yield from readers.act()
        if chance.random() < 0.3:
            got = yield client.get(trial.name)
            if got is not None:
                client.ack(got)
                received.append(got)
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    yield from readers.release()
    both = [
        one.body
        for one in received
        if one.body in readers.done and not trial.nodes.outages.during(one.node, one.time)
    ]
    trial.expect(not both, f"{both[:5]} have come, and are in takes that are committed")
    twice = sorted(body for body in set(readers.done) if readers.done.count(body) > 1)
    trial.expect(not twice, f"{twice[:5]} are in two takes")
    had = {one.body for one in received}
    left = [body for body in wanted if body not in readers.done and body not in had]
    yield from trial.take(client, trial.name, left, received)
    trial.check_taken([body for body in wanted if body in had or body not in readers.done], received)

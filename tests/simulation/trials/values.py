"""Queues that keep the last message of each key, over a stream, and deltas that are merged into it (D16)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise

from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.prover import Received
from tests.simulation.trials.trial import PAUSE_S, Trial

KEY = "/id"

HELD_S = 1.5
"""Seconds of the simulated time in which most clusters have a fault."""


class Writers:
    """Each writer counts up a field of its own in the value of each key."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.provers = [trial.prover() for _ in range(trial.chance.randint(1, 3))]
        self.keys = trial.chance.randint(1, 3)
        self.left = trial.chance.randint(3, 14)
        self.written: Counter[tuple[int, int]] = Counter()
        self.answers: list[Answer] = []

    def write(self) -> None:
        """Some deltas of a writer, each for any key."""
        chance, writer = self.trial.chance, self.trial.chance.randrange(len(self.provers))
        bodies = []
        for _ in range(min(self.left, chance.choice((1, 1, 3, 8)))):
            key = chance.randrange(self.keys)
            self.written[writer, key] += 1
            bodies.append(json.dumps({"id": key, f"w{writer}": self.written[writer, key]}))
        self.left -= len(bodies)
        answer = self.provers[writer].publish("", self.trial.name, bodies, headers={"x-delta": True})
        self.answers.append(answer)

    def settled(self) -> Steps:
        for answer in self.answers:
            fate = yield answer
            self.trial.expect(not fate.refused, f"the deltas {fate.refused} are refused")

    def last_values(self, wholes: list[str]) -> list[str]:
        """Check that each whole has one delta more than the one before; returns the last of each key."""
        of_key: defaultdict[int, list[tuple[int, dict[str, int], str]]] = defaultdict(list)
        for text in wholes:
            whole = json.loads(text)
            of_key[whole.pop("id")].append((sum(whole.values()), whole, text))
        for key, found in of_key.items():
            found.sort(key=lambda one: one[0])
            counts = [count for count, _, _ in found]
            self.trial.expect(counts == list(range(1, len(found) + 1)), f"{found} are the values of {key}")
            for (_, former, _), (_, later, _) in pairwise(found):
                lost = {name for name, count in former.items() if later.get(name, 0) < count}
                self.trial.expect(not lost, f"{later} has lost {lost} of {former}")
        return [found[-1][2] for found in of_key.values()]


class Watcher:
    """Takes messages from a queue, and gives them back or settles them, the newest first. No key has an older
    value again.
    """

    def __init__(self, trial: Trial, queue: str, *, settles: bool) -> None:
        self.prover = trial.prover()
        self._trial, self._queue, self._settles = trial, queue, settles
        self._held: list[Received] = []
        self._seen: Counter[int] = Counter()

    def step(self) -> Steps:
        chance = self._trial.chance
        if self._settles and len(self._held) > 1 and chance.random() < 0.7:
            self.prover.ack(self._held.pop())
        elif self._held and chance.random() < (0.15 if self._settles else 0.5):
            self.prover.nack(self._held.pop(0), requeue=True)
        got: Received | None = yield self.prover.get(self._queue)
        if got is not None:
            value = json.loads(got.body)
            key, version = value.pop("id"), sum(value.values())
            self._trial.expect(
                version >= self._seen[key], f"{got.body} comes behind version {self._seen[key]}"
            )
            self._seen[key] = version
            self._held.append(got)

    def settle_later_ones(self) -> None:
        """Settle all but the oldest message."""
        while len(self._held) > 1:
            self.prover.ack(self._held.pop())

    def give_back(self) -> None:
        for one in self._held:
            self.prover.nack(one, requeue=True)
        self._held.clear()


def values(trial: Trial) -> Steps:
    """No consumer gets a value that is older than one that has come before."""
    yield from trial.chance.choice((_deltas, _wholes))(trial)


def _wholes(trial: Trial) -> Steps:
    """One client publishes values, and another takes, gives back and settles them."""
    chance = trial.chance
    writer, taker = trial.prover(), Watcher(trial, trial.name, settles=True)
    yield trial.queue(writer, key=KEY)
    for version in range(1, chance.randint(5, 20)):
        fate = yield writer.publish("", trial.name, [json.dumps({"id": version % 2, "version": version})])
        trial.expect(not fate.refused, f"version {version} is refused")
        for _ in range(chance.choice((0, 1, 3))):
            yield from taker.step()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    # The owner may change while the taker holds a value whose later ones are settled.
    taker.settle_later_ones()
    yield from trial.pause(chance.choice((PAUSE_S, HELD_S)))
    taker.give_back()
    for _ in range(3):
        yield from taker.step()
    taker.give_back()
    yield from trial.take(writer, trial.name, (), [], settler=taker.prover)


def _deltas(trial: Trial) -> Steps:
    """Deltas of several clients make one value after the other, and none is lost. The queue over the stream
    has the last value of each key, and another queue has all.
    """
    chance, writers = trial.chance, Writers(trial)
    first, stream, each = writers.provers[0], f"{trial.name} all", f"{trial.name} each"
    yield trial.queue(first, " all", queue_type="stream")
    yield trial.queue(first, underlying_topic=stream, key=KEY)
    yield trial.queue(first, " each", underlying_topic=stream)
    watcher = Watcher(trial, trial.name, settles=False)
    while writers.left:
        writers.write()
        if chance.random() < 0.5:
            yield from watcher.step()
        yield from trial.pause(chance.choice((0.0, 0.0, PAUSE_S)))
    yield from writers.settled()
    watcher.give_back()
    wholes: dict[str, Received] = {}
    while len(wholes) < sum(writers.written.values()):
        got: Received | None = yield first.get(each)
        if got is None:
            yield from trial.pause()
        else:
            wholes[got.body] = got
            first.ack(got)
    wanted, taken = writers.last_values(list(wholes)), list[Received]()
    yield from trial.take(first, trial.name, wanted, taken, settler=watcher.prover)
    trial.check_taken(wanted, taken)

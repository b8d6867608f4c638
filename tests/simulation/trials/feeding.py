"""Queues over a pattern of streams with a recovery point, to which the owners of streams in other partitions
send their messages (D1, D13).
"""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.filling import LOOK_S, PADDING
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.trial import Trial

FORMS: Final[tuple[dict[str, Any], ...]] = ({}, {}, {"filter": "TRUE"}, {"max_priority": 3})


class Source:
    """A stream, and the client that writes all its messages in order."""

    def __init__(self, trial: Trial, suffix: str) -> None:
        self.trial, self.suffix = trial, suffix
        self.writer: Prover = trial.prover()
        self.all = numbered(suffix.strip(), trial.chance.randint(5, 25))
        self.left = list(self.all)
        self._answers: list[Answer] = []

    @property
    def name(self) -> str:
        return f"{self.trial.name}{self.suffix}"

    def declare(self) -> Steps:
        yield self.trial.queue(self.writer, self.suffix, queue_type="stream")

    def write(self, count: int) -> None:
        """Write the next messages, behind the answer to the ones before."""
        if self.left and (not self._answers or self._answers[-1].given):
            some, self.left = self.left[:count], self.left[count:]
            headers = {"padding": PADDING}
            self._answers.append(self.writer.publish("", self.name, some, headers=lambda _: headers))

    def written(self) -> Steps:
        """Wait for the answers to all that is written."""
        while self._answers:
            yield self._answers.pop(0)


def feeding(trial: Trial) -> Steps:
    """A queue that is declared in the middle of the writing has all messages of all streams, once, and those
    of each stream in its order, while owners of streams and of the queue move.
    """
    chance = trial.chance
    sources = [Source(trial, suffix) for suffix in (" near", " far", " away")]
    for source in sources:
        yield from source.declare()
    for source in sources:
        source.write(chance.choice((1, 5, 20)))
    yield from _write_on(trial, sources, chance.randint(0, 10))
    declarer = trial.prover()
    answer = trial.queue(
        declarer,
        " over",
        underlying_topic=f"^{trial.name} (near|far|away)$",
        default_publish_target=sources[0].name,
        recovery_point="epoch",
        **chance.choice(FORMS),
    )
    for _ in range(chance.randint(1, 3)):
        yield from _write_on(trial, sources, chance.randint(0, 8))
        owned = trial.owner_of(chance.choice(trial.queues))
        if owned is not None:
            trial.move(*owned)
    yield answer
    while any(source.left for source in sources):
        yield from _write_on(trial, sources, 1)
    for source in sources:
        yield from source.written()
    every = [body for source in sources for body in source.all]
    taken: list[Received] = []
    yield from trial.take(declarer, f"{trial.name} over", every, taken)
    trial.check_taken(every, taken)
    for source in sources:
        came = [one.body for one in taken if one.body in source.all and (trial.calm or not one.redelivered)]
        wanted = [body for body in source.all if body in came]
        trial.expect(came == wanted, f"{came} came in this order, and {wanted} were written")


def _write_on(trial: Trial, sources: list[Source], rounds: int) -> Steps:
    for _ in range(rounds):
        trial.chance.choice(sources).write(trial.chance.choice((1, 3)))
        yield from trial.pause(LOOK_S)

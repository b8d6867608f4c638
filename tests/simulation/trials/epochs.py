"""A sink whose epochs are written, repeated, aborted and committed by jobs that come and go (F8)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from cluster.gateway.broker_port import FrontEnd
from node.queue.epoch_operations import BranchName
from node.session.ports import QueueRef
from tests.messages import content, run_of
from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.asking import Begin, Told, ask_nodes
from tests.simulation.trials.moving import USER
from tests.simulation.trials.prover import Received
from tests.simulation.trials.trial import PAUSE_S, Trial

TASKS: Final = 2

Word = Generator[Answer | float, Any, str]
"""Steps to the ledger's word."""


class Job:
    """A job that writes the epochs of one sink through any nodes. A node that is lost answers no more."""

    def __init__(self, trial: Trial, ledger: str, queues: list[str]) -> None:
        self._trial, self._ledger, self._queues = trial, ledger, queues
        self._attempts = 0

    def _ask(self, begin: Begin) -> Told:
        return ask_nodes(self._trial, self._ledger, begin)

    def stage(self, epoch: int, task: int) -> Generator[Answer | float, Any, tuple[int, int] | None]:
        """Stage what a task writes, as one branch or two. Returns the attempt and the number of branches;
        None where the epoch is committed.
        """
        chance = self._trial.chance
        while True:
            self._attempts += 1
            attempt, branches = self._attempts, chance.choice((1, 2))
            told = "staged"
            for number in range(branches):
                bodies = bodies_of(epoch, task)[number::branches]
                told = yield from self._stage(epoch, BranchName(task, attempt, number), bodies)
                if told not in ("staged", "taken"):
                    break
                if chance.random() < 0.1:
                    # The task dies, or its answer is lost: another attempt begins anew.
                    told = "lost"
                    break
            if told == "committed":
                return None
            if told in ("staged", "taken"):
                return attempt, branches

    def _stage(self, epoch: int, name: BranchName, bodies: list[str]) -> Word:
        def begin(port: FrontEnd, ledger: QueueRef, take: Callable[[list[Any]], None]) -> None:
            found = []
            for body in bodies:
                queue = self._queues[len(body) % len(self._queues)]
                run = run_of([content(body.encode(), delivery_mode=2)], key=queue)
                found.append((run, port.route(USER, "", queue)))
            port.epochs.stage(ledger, epoch, name, found, take)

        told = yield from self._ask(begin)
        return str(told[0])

    def commit(self, epoch: int, named: list[tuple[int, int, int]]) -> Word:
        """Returns the ledger's word."""
        told = yield from self._ask(
            lambda port, ledger, take: port.epochs.commit(ledger, epoch, named, None, take)
        )
        return str(told[0])

    def abort(self, epoch: int) -> Word:
        """Returns the ledger's word."""
        told = yield from self._ask(lambda port, ledger, take: port.epochs.drop(ledger, epoch, take))
        return str(told[0])

    def write(self, epoch: int) -> Steps:
        """Write an epoch, and commit it."""
        trial, chance = self._trial, self._trial.chance
        while True:
            named: list[tuple[int, int, int]] = []
            for task in range(TASKS):
                staged = yield from self.stage(epoch, task)
                if staged is not None:
                    named.append((task, *staged))
            if chance.random() < 0.2:
                told = yield from self.abort(epoch)
                trial.expect(told in ("dropped", "committed"), f"an abort of epoch {epoch} is {told}")
            told = yield from self.commit(epoch, named)
            if told == "committed":
                return
            trial.expect(told == "missing", f"a commit of epoch {epoch} is {told}")


def bodies_of(epoch: int, task: int) -> list[str]:
    """The messages that a task writes in an epoch."""
    return [f"e{epoch} t{task} {'m' * number}" for number in range(1, 5)]


def epochs(trial: Trial) -> Steps:
    """Each message of an epoch comes once, though jobs write epochs again that are committed, and abort
    them.
    """
    chance = trial.chance
    taker = trial.prover()
    queues = [f"{trial.name} {suffix}" for suffix in "ab"]
    yield trial.queue(taker, " a")
    yield trial.queue(taker, " b", initial_owner=chance.choice((None, "n2")))
    yield trial.queue(taker, " ledger")
    job = Job(trial, f"{trial.name} ledger", queues)
    wanted: list[str] = []
    for epoch in range(chance.randint(2, 6)):
        yield from job.write(epoch)
        wanted += [body for task in range(TASKS) for body in bodies_of(epoch, task)]
        if chance.random() < 0.4:
            told = yield from job.abort(epoch)
            trial.expect(told == "committed", f"an abort behind the commit of epoch {epoch} is {told}")
        if chance.random() < 0.6:
            # The job was lost before it could note the commit, and another one writes the epoch again.
            yield from job.write(epoch)
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    taken: list[Received] = []
    for queue in queues:
        mine = [body for body in wanted if queues[len(body) % len(queues)] == queue]
        yield from trial.take(taker, queue, mine, taken)
    trial.check_taken(wanted, taken)

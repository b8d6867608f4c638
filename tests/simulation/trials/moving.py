"""Messages that clients move from queue to queue, or publish anew, over and over (X4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cluster.gateway.broker_port import FrontEnd
from node.delivery.deeds import Deed, MoveTarget, Named, ReplayTarget
from node.message.bookmarks import LAST_NUMBER
from node.refusal import Refusal
from node.session.permissions import Scope
from node.session.replaying import Replay
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.trial import PAUSE_S, Trial

USER: Final = Scope("guest", "/")

MOST_UNDER_WAY: Final = 3
"""So many requests are under way at a time."""


class Requests:
    """Requests about messages that clients name, at any node. `begun` counts the requests, `lost` those whose
    node was lost before it answered.
    """

    def __init__(self, trial: Trial) -> None:
        self.begun = self.lost = 0
        self._trial = trial
        self._under_way: dict[int, tuple[SimulatedNode, int]] = {}

    @property
    def under_way(self) -> int:
        """Requests that a living node has not answered."""
        for number, (node, life) in list(self._under_way.items()):
            if node.life != life:
                del self._under_way[number]
                self.lost += 1
        return len(self._under_way)

    def ask(self, queue: str, named: Callable[[FrontEnd], Named]) -> None:
        """Ask a node."""
        nodes = self._trial.nodes.ready_nodes()
        if not nodes:
            return
        node = self._trial.chance.choice(nodes)
        port = self._trial.nodes.place(node).front_ends.of(node)
        self.begun += 1
        number = self.begun

        def begin() -> None:
            try:
                found, asked = port.queue("/", queue, 0), named(port)
            except Refusal:
                return
            self._under_way[number] = node, node.life
            port.settle_named(found, asked, partial(self._answered, number))

        node.input(begin)

    def _answered(self, number: int, _became: Any, _refusal: Refusal | None) -> None:
        self._under_way.pop(number, None)


EVERYTHING: Final = [(0, LAST_NUMBER)]


def move(trial: Trial, requests: Requests, source: str, target: str) -> None:
    """Move some of the messages of one queue to another one, or publish them anew with its name."""
    limit, anew = trial.chance.choice((1, 3, 10, 100)), requests.begun % 2

    def named(port: FrontEnd) -> Named:
        if anew:
            replay = Replay(port, USER, ReplayTarget("", target))
            return Named(Deed.REPLAY, EVERYTHING, b"", replay, limit)
        other = port.queue("/", target, 0)
        return Named(Deed.MOVE, EVERYTHING, b"", MoveTarget(other.partition, other.id), limit)

    requests.ask(source, named)


def moves(trial: Trial) -> Steps:
    """Each message is in one of two queues, however often clients move it, while another client takes
    messages and gives them back.
    """
    chance = trial.chance
    publisher, taker = trial.prover(), trial.prover()
    queues = [f"{trial.name} {suffix}" for suffix in "ab"]
    yield trial.queue(publisher, " a")
    yield trial.queue(taker, " b")
    bodies = numbered("m", chance.randint(1, 60))
    yield publisher.publish("", queues[0], bodies)
    mover, wanted = Requests(trial), chance.randint(3, 20)
    while mover.begun < wanted or mover.under_way:
        if mover.begun < wanted and mover.under_way < MOST_UNDER_WAY:
            move(trial, mover, *chance.sample(queues, 2))
        if chance.random() < 0.3:
            got: Received | None = yield taker.get(chance.choice(queues))
            if got is not None:
                yield from trial.pause(chance.choice((0.0, 0.01)))
                taker.nack(got, requeue=True)
        yield from trial.pause(chance.choice((0.0, 0.005, PAUSE_S)))
    taken: list[Received] = []
    yield from _take_all(trial, taker, queues, set(bodies), taken)
    trial.check_taken(bodies, taken)


def _take_all(
    trial: Trial, taker: Prover, queues: list[str], missing: set[str], taken: list[Received]
) -> Steps:
    """Get and acknowledge until all messages have come and the queues are empty."""
    empty = False
    while missing or not empty:
        empty = True
        for queue in queues:
            got: Received | None = yield taker.get(queue)
            if got is not None:
                empty = False
                taker.ack(got)
                taken.append(got)
                missing.discard(got.body)
        if empty and missing:
            trial.nodes.world.note(f"{trial.name}: the queues still lack {sorted(missing)[:5]}")
            yield PAUSE_S

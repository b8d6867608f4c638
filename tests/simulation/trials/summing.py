"""Views over a queue: the rows equal a recount of the messages that are available, and a follower knows them
at any node, whichever node is the owner (D15).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

from node.queue.dispatch import QueueOwner
from node.queue.view import View
from node.refusal import Refusal
from node.session.amqp10.view_links import rows_read
from node.session.view_port import ViewRows, version_of
from node.wire.amqp091 import methods as m
from node.wire.amqp10.followed_rows import NO_VERSION, FollowedRows
from tests.inside import state_of
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.row_stream import RowStream
from tests.simulation.trials.trial import PAUSE_S, Trial
from tests.wire.amqp10.view_rows import told_row

VIEW: Final[dict[str, Any]] = {
    "filter": "",
    "group_by": ["/group"],
    "fields": {"group": "/group", "n": "COUNT(*)", "sum": "SUM(/price)", "least": "MIN(/price)"},
}

TRIES: Final = 400
"""A view has the right rows within so many readings, once nothing changes any more."""

FED: Final = 0.6
"""The share of trials whose view feeds a stream."""

Rows = dict[str, tuple[int, float, float]]
"""Count, sum and least price by group."""

_BODY: Final = re.compile(rb'\{"group": "[^}]*\}')


def recount(bodies: list[str]) -> Rows:
    found: dict[str, list[float]] = {}
    for body in bodies:
        order = json.loads(body)
        found.setdefault(order["group"], []).append(order["price"])
    return {group: (len(prices), sum(prices), min(prices)) for group, prices in found.items()}


def named(rows: list[list[Any]]) -> Rows:
    return {group: (n, total, least) for group, n, total, least in rows}


class Summing:
    """A queue with a view, and what is known of its messages."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.view = f"{trial.name} view"
        self.settled: set[str] = set()
        """Messages that a client has acknowledged: they may be gone."""
        self.rows: list[list[Any]] | None = None
        self.most: Rows = {}
        """The rows over all messages that are published: no row ever has more of them."""
        self._followed = FollowedRows(self.view)
        self.told: dict[str, dict[str, Any]] = {}
        """The rows that a follower of the view has been told, by their keys."""

    # -- inside ---------------------------------------------------------------------------------

    def check_owner(self) -> None:
        """Compare the rows of an owner whose view does not lag behind with its ready messages."""
        for node in self.trial.nodes.ready_nodes():
            queue = node.broker.catalog.state.queues.get(("/", self.trial.name))
            owner = None if queue is None else node.broker.owners.get(queue.partition)
            if queue is None or owner is None or not owner.active:
                continue
            owned = state_of(owner).queues.get(queue.id)
            views = None if owned is None else owned.delivery.views
            view = None if views is None else views.by_name.get(self.view)
            if owned is not None and view is not None and not view.behind:
                self._compare(node.name, owned, view)

    def _compare(self, node: str, queue: QueueOwner, view: View) -> None:
        bodies = []
        for first, last in queue.delivery.ready.ranges():
            while first <= last:
                for start, run in queue.read_messages(first, last):
                    found = [_BODY.search(content) for content in run.contents()]
                    bodies += [one[0].decode() for one in found if one is not None]
                    first = start + run.count
        rows, wanted = named(view.page(0).rows), recount(bodies)
        self.trial.expect(rows == wanted, f"the view at {node} has {rows} and not {wanted}")

    # -- outside --------------------------------------------------------------------------------

    def read(self) -> Steps:
        """Follow the view at any node: `rows` has those that the follower knows, or None where the reader is
        refused, or the view lags behind.
        """
        nodes = self.trial.nodes.ready_nodes()
        if not nodes:
            raise LostError
        node = self.trial.chance.choice(nodes)
        port, answer = self.trial.nodes.place(node).front_ends.of(node), Answer()
        self.trial.provers[0].wait_for(answer)

        def answered(rows: ViewRows | None, refusal: Refusal | None) -> None:
            answer.give(None if refusal is not None else rows)

        known = version_of(self._followed.version)

        def ask() -> None:
            try:
                port.views.read("/", self.view, 0, known, 0, answered, keyed=True)
            except Refusal:
                answer.give(None)

        node.input(ask)
        # The node may end before it answers.
        for _ in range(TRIES):
            if answer.given:
                break
            yield PAUSE_S
        self.rows = None
        if answer.given and answer.error is None and answer.value is not None:
            self._follow(answer.value)

    def _follow(self, found: ViewRows) -> None:
        """Tell the follower what has changed. The follower knows the rows of a view that lags behind no
        more.
        """
        self._followed.take(rows_read(found))
        while self._followed.waiting:
            told = told_row(self._followed.take_message())
            key = str(told.key)
            if told.row is None:
                del self.told[key]
            else:
                self.told[key] = told.row
        if found.complete and self._followed.version != NO_VERSION:
            self.rows = [[row[field] for field in VIEW["fields"]] for row in self.told.values()]
            for group, row in named(self.rows).items():
                self.trial.expect(row[0] <= self.most[group][0], f"{row[0]} messages of {group} are too many")
            if not found.unchanged:
                rows, wanted = named(self.rows), named(found.rows)
                self.trial.expect(rows == wanted, f"the follower has {rows}, and the view {wanted}")

    def until(self, bodies: Counter[str]) -> Steps:
        """Wait until the view has a message for each of these, and perhaps others that a client has
        acknowledged.
        """
        least = recount(list(bodies))
        rows: Rows = {}
        for _ in range(TRIES):
            yield from self.read()
            rows = {} if self.rows is None else named(self.rows)
            if self.rows is not None and all(
                rows.get(group, (0,))[0] >= row[0] for group, row in least.items()
            ):
                return
            yield from self.trial.pause()
        self.trial.expect(False, f"the view has {rows}, and not {least}")


def orders(trial: Trial) -> list[str]:
    chance = trial.chance
    return [
        f'{{"group": "g{chance.randrange(3)}", "number": {number}, "price": {chance.randrange(8) / 4}}}'
        for number in range(chance.randint(6, 40))
    ]


def summing(trial: Trial) -> Steps:
    """A view has what is available: nothing that a consumer has, and all else; in the end nothing."""
    chance, summing = trial.chance, Summing(trial)
    publisher, *takers = (trial.prover() for _ in range(4))
    # A chance of its own: seeds whose queue has one owner go on as they would without this one.
    owners = trial.nodes.world.chance(f"owners of {trial.name}").choice((None, None, 2, 3))
    yield trial.queue(publisher, owners=owners)
    yield trial.put_view(summing.view, VIEW, parts=owners is not None)
    stream = (
        RowStream(summing) if trial.nodes.world.chance(f"stream of {trial.name}").random() < FED else None
    )
    if stream is not None:
        yield from stream.declare(publisher)
    for taker in takers:
        yield taker.ask(m.BasicQos(0, chance.randint(1, 5)))
        yield taker.ask(m.BasicConsume(trial.name))
    bodies = orders(trial)
    summing.most = recount(bodies)
    left, answers = list(bodies), list[Answer]()
    while left:
        size = chance.choice((1, 1, 3, 10))
        answers.append(publisher.publish("", trial.name, left[:size]))
        del left[:size]
        for taker in takers:
            _act(summing, taker)
        summing.check_owner()
        if stream is not None:
            stream.last()
        if chance.random() < 0.1:
            yield from summing.read()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    while answers:
        yield answers.pop(0)
    for taker in takers:
        taker.leave()
    yield from summing.until(Counter(set(bodies) - summing.settled))
    summing.check_owner()
    if stream is not None:
        yield from stream.until_it_has_the_rows()
    taken: list[Received] = []
    yield from trial.take(publisher, trial.name, set(bodies) - summing.settled, taken)
    summing.settled.update(bodies)
    yield from _empty(summing)
    if stream is not None:
        yield from stream.until_it_has_the_rows()


def _act(summing: Summing, taker: Prover) -> None:
    """Settle some of what has come, or give it back."""
    chance, keep = summing.trial.chance, list[Received]()
    for one in taker.deliveries:
        if chance.random() < 0.2 and taker.alive:
            summing.settled.add(one.body)
            taker.ack(one)
        elif chance.random() < 0.2 and taker.alive:
            taker.nack(one, requeue=True)
        else:
            keep.append(one)
    taker.deliveries = keep


def _empty(summing: Summing) -> Steps:
    """The view has no row once the queue is empty. A message that a lost node had may come back late."""
    for _ in range(TRIES):
        yield from summing.read()
        if summing.rows is not None and not summing.rows:
            return
        yield from summing.trial.pause()
        summing.check_owner()
        got: Received | None = yield summing.trial.provers[0].get(summing.trial.name)
        if got is not None:
            summing.trial.provers[0].ack(got)
    summing.trial.expect(False, "the view of an empty queue has rows")

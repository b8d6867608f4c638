"""Moves consumers of queues with a part for each node from part to part
(docs/decisions/0086-consumers-that-move.md). Pure.

A consumer leaves a part that closes, and goes to the nearest one. A consumer of a node that has got a part
goes to that part. The former owner delivers no more to the consumer before the next owner begins. The session
knows the consumer by one number all the time, and settles each message at the part that gave it: the number
under which a consumer is attached has its moves above the number that the session knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from cluster.catalog.definitions import PartState, QueueDefinition
from cluster.catalog.owner_parts import known_as
from cluster.gateway.attaching import Attaching
from cluster.gateway.cancellations import Cancellations
from cluster.gateway.commits import Attached
from cluster.gateway.context import GatewayContext
from cluster.gateway.queue_placing import QueuePlacing
from cluster.gateway.state import LinkConsumer
from node.delivery.settlements import MOST_MOVES, consumer_of, moved_once_more, moves_of
from node.refusal import Refusal
from node.session.ports import ConsumerOptions, QueueRef

MOVING_INTERVAL_S: Final = 0.1

Action = Callable[[], None]


@dataclass(slots=True)
class _Move:
    """A consumer on its way to another part of the queue. `former` are its terms at the part that it has
    left, and `number` is the one under which it is attached next. `limit` is its limit in the owner's count.
    `waiting`: no owner is asked to stop it, or to begin. `then` is what its session has asked for meanwhile.
    """

    queue: QueueRef
    former: LinkConsumer
    number: int
    limit: int
    waiting: bool = False
    forgotten: bool = False
    then: list[Action] = field(default_factory=list)


class MovingConsumers:
    """The consumers of one front end. Other methods than `tick` take numbers that sessions know."""

    def __init__(
        self,
        context: GatewayContext,
        placing: QueuePlacing,
        consumers: dict[int, Attached],
        attaching: Attaching,
        cancellations: Cancellations,
    ) -> None:
        self._node, self._owner_of = context.config.node, context.owner_of
        self._state, self._links, self._placing = context.catalog.state, context.links, placing
        self._consumers, self._attaching, self._cancellations = consumers, attaching, cancellations
        self._present: dict[int, int] = {}
        """The number under which each consumer is attached that has moved."""
        self._moves: dict[int, _Move] = {}
        self._ending = set[int]()
        self._next = 0.0

    # -- what sessions ask for ------------------------------------------------------------------

    def present(self, consumer: int) -> int:
        """The number under which a consumer is attached, or was last."""
        return self._present.get(consumer, consumer)

    def postponed(self, consumer: int, action: Action, *, ends: bool = False) -> bool:
        """Whether a consumer is on its way to another part: the action is carried out when the consumer has
        arrived. One that `ends` moves no more.
        """
        move = self._moves.get(consumer)
        if move is not None:
            move.then.append(action)
        elif ends and self.present(consumer) in self._consumers:
            self._ending.add(consumer)
        return move is not None

    def credited(self, consumer: int, limit: int) -> bool:
        """Whether a consumer is on its way to another part, where it gets the credit."""
        move = self._moves.get(consumer)
        if move is not None:
            move.limit = limit + move.former.dropped
        return move is not None

    def forget(self, consumer: int) -> None:
        """The session has no message of the consumer any more, and the consumer has ended."""
        self._ending.discard(consumer)
        if consumer in self._moves:
            self._moves[consumer].forgotten = True
        number, last = consumer, self._present.pop(consumer, consumer)
        while number <= last:
            self._consumers.pop(number, None)
            number = moved_once_more(number)

    # -- moves ----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Look for consumers that are to move, every `MOVING_INTERVAL_S`."""
        if now < self._next or not (self._moves or self._state.owner_parts.of_nodes):
            return
        self._next = now + MOVING_INTERVAL_S
        for consumer, move in list(self._moves.items()):
            if move.waiting:
                self._begin(consumer, move)
        for part in self._parts_to_leave():
            link = self._links.by_partition.get(part.partition)
            attached = [] if link is None or link.unreachable else list(link.consumers.values())
            for one in attached:
                if one.queue == part.id and self._may_move(one):
                    self._leave(part, one)

    def _parts_to_leave(self) -> list[QueueDefinition]:
        found = []
        for key in sorted(self._state.owner_parts.of_nodes):
            parts = self._state.owner_parts.of(self._state.queues[key])
            own = [one for one in parts if self._is_own(one)]
            found += [one for one in parts if one.part is PartState.CLOSING or (own and one not in own)]
        return found

    def _is_own(self, part: QueueDefinition) -> bool:
        """Whether a part is that of this node, which owns it. Another node owns the part at times."""
        mine = part.node == self._node and part.part is PartState.OPEN
        return mine and self._owner_of(part.partition) == self._node

    def _may_move(self, consumer: LinkConsumer) -> bool:
        attached, known = self._consumers.get(consumer.id), consumer_of(consumer.id)
        # The owner that drains a consumer has still to answer.
        busy = attached is None or attached.replacing or consumer.drain
        stays = known in self._moves or known in self._ending or moves_of(consumer.id) == MOST_MOVES
        return not (busy or stays)

    def _leave(self, part: QueueDefinition, consumer: LinkConsumer) -> None:
        """Have the owner of a part deliver no more to a consumer."""
        first = self._state.queues[known_as(part)]
        attached, known = self._consumers[consumer.id], consumer_of(consumer.id)
        queue = QueueRef(first.name, first.partition, first.id, first.vhost)
        move = _Move(queue, consumer, moved_once_more(consumer.id), consumer.limit)
        self._moves[known] = move
        # A new owner of the part that is greeted meanwhile gives nothing either.
        consumer.limit = consumer.delivered
        left = partial(self._begin, known, move)
        self._cancellations.cancel(attached.link, attached.queue, consumer.id, left)

    def _begin(self, consumer: int, move: _Move) -> None:
        """Attach a consumer that has left its part to the nearest one."""
        move.waiting, former = False, move.former
        found = self._state.queues_by_id.get(move.queue.id)
        if move.forgotten:
            self._end(consumer, move)
        elif found is None:
            self._end(consumer, move)
            former.subscriber.consumer_cancelled(consumer)
        else:
            options = ConsumerOptions(
                former.no_ack,
                former.exclusive,
                former.priority,
                former.limit,
                filter=former.filter,
                link=former.link,
                tells=former.tells,
                backlog=former.backlog,
            )
            nearest, answer = self._placing.nearest(move.queue), partial(self._begun, consumer, move)
            received, number = former.delivered, move.number
            self._attaching.begin(former.subscriber, nearest, options, answer, received, number)

    def _begun(self, consumer: int, move: _Move, number: int, refusal: Refusal | None) -> None:
        if refusal is not None:
            # A part that comes or goes: its owner does not have it yet, or any more.
            move.waiting = True
            return
        link = self._consumers[number].link
        if move.forgotten:
            link.detach(number)
            del self._consumers[number]
        else:
            self._present[consumer] = number
            link.consumers[number].dropped = move.former.dropped
            link.credit(number, move.limit)
        self._end(consumer, move)

    def _end(self, consumer: int, move: _Move) -> None:
        del self._moves[consumer]
        for action in move.then:
            action()

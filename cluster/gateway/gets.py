"""basic.get, on the front end's side.

For a get without acknowledgement the owner leases the message to this front end. The front end then has the
message removed, and hands it to the client when the removal is committed
(docs/decisions/0030-gets-without-acknowledgement.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cluster.catalog.state import CatalogState
from cluster.gateway.commits import Attached
from cluster.gateway.link import Links, PartitionLink
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.refusals import refusal_of
from cluster.peers.link_messages import GET_LINK, STAYS_LEASED, Delivery, Ranges
from node.delivery.settlements import TOKEN_SHIFT
from node.queue.entry_format import encode_settle
from node.queue.transaction_format import encode_decide
from node.queue.transaction_operations import REMOVAL
from node.session.ports import Got, QueueRef, TakeGot

GET_LINKS: Final = 1024
"""Queues that clients read with basic.get. When there are more, the front end forgets those deleted since."""


class Gets:
    """The gets of a front end's sessions. Clients settle the messages under one consumer number a queue."""

    def __init__(
        self,
        state: CatalogState,
        links: Links,
        local: LocalQueues,
        consumers: dict[int, Attached],
        new_consumer: Callable[[PartitionLink, int], int],
    ) -> None:
        self._state, self._links, self._local = state, links, local
        self._consumers = consumers
        self._new_consumer = new_consumer
        self._numbers: dict[tuple[int, int], int] = {}
        self._limit = GET_LINKS

    def get(self, queue: QueueRef, no_ack: bool, answer: TakeGot, filter: bytes = b"") -> None:
        """See `node.session.ports.BrokerPort.get`."""
        link = self._links.to(queue.partition)
        number = self._number(link, queue)

        def got(value: Any, delivery: Delivery | None) -> None:
            if delivery is None:
                answer(None, refusal_of(queue, value))
                return
            sequence = delivery.ranges[0][0]
            found = Got(
                delivery.token << TOKEN_SHIFT | number, delivery.run, sequence, delivery.redelivered, value
            )
            if no_ack and delivery.consumer == GET_LINK:
                again = partial(self.get, queue, no_ack, answer, filter)
                removal = Removal(partial(answer, found, None), again)
                request_removal(link, queue.id, sequence, removal, delivery.token)
            else:
                answer(found, None)

        # An owner of the release before ignores the third argument, and removes the message itself.
        arguments: list[Any] = [queue.id, no_ack, STAYS_LEASED] if no_ack else [queue.id, no_ack]
        if filter:
            arguments = [queue.id, no_ack, STAYS_LEASED, filter]
        self._links.request(link, "get", arguments, got)

    def _number(self, link: PartitionLink, queue: QueueRef) -> int:
        key = (queue.partition, queue.id)
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= self._limit:
                self._prune()
            number = self._numbers[key] = self._new_consumer(link, queue.id)
        return number

    def _prune(self) -> None:
        """Forget the consumer numbers of queues that have been deleted."""
        known: Mapping[int, object] = self._state.queues_by_id
        for key, number in list(self._numbers.items()):
            if key[1] not in known and key[1] not in self._local.settings:
                del self._numbers[key], self._consumers[number]
        self._limit = max(GET_LINKS, 2 * len(self._numbers))


def request_removal(link: PartitionLink, queue: int, sequence: int, removal: Removal, token: int) -> None:
    """Have the queue's owner remove a message that came under the lease `token`. The owner refuses where the
    message has gone to another client since.
    """
    settle = encode_settle(queue, [(sequence, sequence)], link.told_token(token))
    operation = b"".join(encode_decide(REMOVAL, [], [settle]))
    link.transact(operation, [(queue, sequence, sequence)], removal)


@dataclass(slots=True)
class Removal:
    """Waits for the removal of one message; implements `cluster.gateway.state.Awaiting`."""

    removed: Callable[[], None]
    again: Callable[[], None]
    """Called where the owner refused: it has given the message to another consumer while this front end was
    out of reach.
    """
    refusal: bool = False

    def refused(self, offset: int, messages: Ranges) -> None:
        self.refusal |= any(first < offset <= last + 1 for first, last in messages)

    def committed(self) -> None:
        if self.refusal:
            self.again()
        else:
            self.removed()

    def given_up(self, offset: int) -> bool:
        # The only node that has the queue stays away, and delivers the message to no client meanwhile. When
        # it is back, the link sends the removal again before the node delivers.
        self.removed()
        return True

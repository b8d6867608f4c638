"""Parts of queues that are to go (docs/decisions/0082-a-part-for-each-node.md), at their owners. Pure.

A closing part lends its messages to the others (`cluster.owner.loans`). The part goes once it is empty, has
no consumers, and nothing can come to it any more:

- Every front end has said, behind its last publish to the part, that it publishes no more to it.
- The owner of each partition has said that its log has no transfer to the part. Owners of later terms make
  none either, because every node sees by then that the part closes.

The seal in the log does not apply where a message has come after all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.owner.context import QueueParts
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOTHING_TO_GET
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_seal_queue


class _Round:
    """The words of other partitions' owners, while no consumer comes and no front end greets anew: `epochs`
    are those of the front ends. `asked` have not answered, `clear` have no transfer to the part.
    """

    def __init__(self, epochs: dict[int, int]) -> None:
        self.epochs = epochs
        self.asked, self.clear = set[int](), set[int]()


class _Closing:
    """How far a part is. `seen`: every node sees that the part closes."""

    def __init__(self) -> None:
        self.seen = self.sealing = False
        self.round: _Round | None = None


class ClosingParts:
    """The closing parts of one partition, while this node owns the partition."""

    def __init__(
        self,
        owner: OwnerState,
        parts: QueueParts,
        dead_letters: DeadLetters,
        lend_nothing_more: Callable[[int, int], None],
    ) -> None:
        """`lend_nothing_more` drops the questions of a front end for messages for a part."""
        self._owner, self._parts, self._dead_letters = owner, parts, dead_letters
        self._lend_nothing_more = lend_nothing_more
        self._closing: dict[int, _Closing] = {}
        self._told: dict[int, dict[int, tuple[int, int]]] = {}
        """By part, the front ends that publish no more to it: the epoch and the request of each."""

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._closing, self._told = {}, {}

    def retry(self) -> None:
        """Go on with each part. Called every `RETRY_INTERVAL_S`."""
        for number in self._parts.closing(self._owner.partition):
            if number in self._owner.queues:
                self._owner.serve_again(number)
                self._go_on(number)

    def gone(self, number: int) -> None:
        """A part is sealed, or deleted with its queue: the front ends hear that."""
        self._closing.pop(number, None)
        for front_end, (epoch, request) in self._told.pop(number, {}).items():
            if self._owner.front_ends.greeted(front_end, epoch):
                self._owner.front_ends.answer(front_end, request, None)

    # -- the owner of the part ------------------------------------------------------------------

    def publishes_no_more(self, front_end: int, epoch: int, request: int, number: int) -> None:
        """A front end has published to a part for the last time. The answer comes when the part is gone:
        until then each later owner gets the word, too.
        """
        if number not in self._owner.queues:
            self._owner.front_ends.answer(front_end, request, None)
            return
        self._told.setdefault(number, {})[front_end] = (epoch, request)
        self._go_on(number)

    def _go_on(self, number: int) -> None:
        queue = self._owner.queues.get(number)
        if queue is None or not self._parts.closes(number):
            return
        closing = self._closing.get(number)
        if closing is None:
            closing = self._closing[number] = _Closing()
            self._parts.when_seen(partial(self._seen, number, closing))
        elif closing.seen and not closing.sealing:
            self._ask_others(number, closing, queue)

    def _seen(self, number: int, closing: _Closing) -> None:
        closing.seen = True
        if self._closing.get(number) is closing:
            self._go_on(number)

    def _ask_others(self, number: int, closing: _Closing, queue: QueueOwner) -> None:
        owner, epochs = self._owner, self._epochs(number)
        if epochs is None or queue.delivery.consumers.count or owner.front_ends.joining[number]:
            # A consumer may have the owner ask for loans, and a front end that greets may have consumers.
            closing.round = None
            return
        if closing.round is None or closing.round.epochs != epochs:
            closing.round = _Round(epochs)
        now = closing.round
        others = {one for one in self._parts.partitions() if one != owner.partition}
        for partition in others - now.asked - now.clear:
            now.asked.add(partition)
            arguments = [*NOTHING_TO_GET, number, owner.partition]
            told = partial(self._other_told, number, now, partition)
            self._dead_letters.link(partition).ask("tell_transfers", arguments, told)
        if others <= now.clear and self._empty(queue):
            self._seal(number, closing)

    def _empty(self, queue: QueueOwner) -> bool:
        """Whether the part has no message: none that waits, none that is leased, delayed or dead."""
        return not queue.delivery.state.alive

    def _epochs(self, number: int) -> dict[int, int] | None:
        """The epochs of all front ends; None while one of them may publish to the part."""
        told, epochs = self._told.get(number, {}), dict[int, int]()
        for front_end in self._parts.front_ends():
            epoch, _ = told.get(front_end, (0, 0))
            if not self._owner.front_ends.greeted(front_end, epoch):
                return None
            epochs[front_end] = epoch
        return epochs

    def _other_told(self, number: int, asked: _Round, partition: int, clear: Any) -> None:
        asked.asked.discard(partition)
        if clear is True:
            asked.clear.add(partition)
            self._go_on(number)

    def _seal(self, number: int, closing: _Closing) -> None:
        closing.sealing = True
        # Behind the batches of the next entry: one of them may have a message for the part.
        self._owner.decision(encode_seal_queue(number, self._owner.machine.next_sequence - 1))
        self._owner.after_proposed(partial(self._not_sealed, number, closing))

    def _not_sealed(self, number: int, closing: _Closing) -> None:
        """The seal is applied: where the part is still there, a message has come."""
        closing.sealing = False
        if self._closing.get(number) is closing:
            self._owner.serve_again(number)

    # -- the owners of other partitions ---------------------------------------------------------

    def tell_transfers(self, front_end: int, request: int, number: int, partition: int) -> None:
        """The owner of a part asks whether a transfer to the part may still come from here."""
        self._lend_nothing_more(front_end, number)
        if self._parts.taking_nothing(number):
            self._owner.after_proposed(partial(self._tell, front_end, request, number, partition))
        else:
            # This node's catalog is behind, and dead letters may still be routed to the part.
            self._owner.front_ends.answer(front_end, request, False)

    def _tell(self, front_end: int, request: int, number: int, partition: int) -> None:
        transfers = self._owner.machine.transfers.to(partition)
        clear = not any(number in transfer.targets for transfer in transfers)
        self._owner.linearizable_reads.answer(front_end, request, clear)

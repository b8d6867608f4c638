"""Sends dead letters and loans of one partition, and its owner's requests, to the owner of another one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from cluster.peers.link_messages import Delivery, OwnerPort, Ranges
from node.queue.transfers import Transfer

FIRST_TRANSIT_ID: Final = 1 << 63
"""A partition that sends dead letters is a front end to the owner that gets them. Its front end number is
this number plus its own. The front ends of nodes have lower numbers."""

ALL_TRANSFER_LINKS: Final = FIRST_TRANSIT_ID
"""Stands for all links from the partitions that a node owns. No such partition has the number 0: the catalog
sends no dead letters.
"""

EPOCHS_PER_TERM_BITS: Final = 24


class Question(NamedTuple):
    """A request that the other owner has not answered yet."""

    name: str
    arguments: list[Any]
    answer: Callable[[Any], None]


class TransferLink:
    """The link from a partition to the owner of another one (a `FrontEndPort`). The owner of the sending
    partition, elected in `term`, keeps it.

    A transfer and its number are committed in the log of the sending partition before the link gets it.
    Epochs grow with terms, so that a deposed owner is not heard after its successor.
    """

    def __init__(
        self,
        source: int,
        partition: int,
        node: str,
        term: int,
        contents: Callable[[Transfer], bytes | None],
        arrived: Callable[[int], None],
    ) -> None:
        """`contents` encodes the operation batch of a transfer, or returns None while that is impossible.
        `arrived` is called with the number up to which all transfers have arrived.
        """
        self.partition = partition
        self.owner_node: str | None = None
        self.stalled = False
        """Whether a transfer could not be encoded: `resync` tries again."""
        self._owner: OwnerPort | None = None
        self._front_end = FIRST_TRANSIT_ID + source
        self._node = node
        self._epoch = term << EPOCHS_PER_TERM_BITS
        self._contents = contents
        self._arrived = arrived
        self._under_way: deque[Transfer] = deque()
        self._sent = 0
        # The other owner may still answer what a former owner here has asked: no number is used twice.
        self._asked = self._epoch
        self._questions: dict[int, Question] = {}

    def __len__(self) -> int:
        """The number of transfers that have not arrived yet."""
        return len(self._under_way)

    def resume(self, transfers: Sequence[Transfer]) -> None:
        """Send again the transfers that a former owner has sent, or was about to send. The other owner would
        take a later one, if it came first, as a sign that these are committed.
        """
        self._under_way.extend(transfers)
        self._sent = max([self._sent, *(transfer.number for transfer in transfers)])
        self.resync()

    def send(self, transfer: Transfer) -> None:
        """Send a transfer that is committed in the log of the sending partition."""
        self._under_way.append(transfer)
        if self._owner is not None and not self.stalled:
            self._send(self._owner, transfer)

    def _send(self, owner: OwnerPort, transfer: Transfer) -> None:
        data = self._contents(transfer)
        self.stalled = data is None
        if data is not None:
            self._sent = max(self._sent, transfer.number)
            owner.operations(self._front_end, self._epoch, transfer.number, data)

    def ask(self, name: str, arguments: list[Any], answer: Callable[[Any], None]) -> None:
        """Ask the owner of the other partition, and each later owner until one has answered."""
        self._asked += 1
        self._questions[self._asked] = Question(name, arguments, answer)
        if self._owner is not None:
            self._owner.request(self._front_end, self._epoch, self._asked, name, arguments)

    # -- owners of the other partition ----------------------------------------------------------

    def owner_elected(self, node: str, owner: OwnerPort) -> None:
        """Greet the new owner of the other partition, on `node`."""
        self._owner, self.owner_node = owner, node
        self.resync()

    def owner_lost(self) -> None:
        """The owner of the other partition is gone: keep transfers and requests for the next one."""
        self._owner = self.owner_node = None

    def resync(self) -> None:
        """Greet the owner in a new epoch, and send again all transfers and requests without an answer."""
        owner = self._owner
        if owner is None:
            return
        self._epoch += 1
        owner.hello(self._front_end, self._epoch, self._node, [], self._sent)
        self.stalled = False
        # An owner in this process answers within these calls, which changes the collections: copy them.
        for transfer in list(self._under_way):
            if not self.stalled:
                self._send(owner, transfer)
        for number, question in list(self._questions.items()):
            owner.request(self._front_end, self._epoch, number, question.name, question.arguments)

    # -- calls of the owner (FrontEndPort) ------------------------------------------------------

    def room(self) -> None:
        """There are no consumers here."""

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        """Transfers up to `number` are committed. Dead letters that a full queue has refused are dropped."""
        before = len(self._under_way)
        while self._under_way and self._under_way[0].number <= number:
            self._under_way.popleft()
        if len(self._under_way) != before:
            self._arrived(number)

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        """Not called: the link has no consumers."""

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        """The owner's answer to a request."""
        question = self._questions.pop(request, None) if epoch == self._epoch else None
        if question is not None:
            question.answer(value)

    def consumer_cancelled(self, epoch: int, consumer: int, stolen: bool = False) -> None:
        """Not called: the link has no consumers."""

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        """Not called: the link has no consumers."""

    def lease_ends_changed(self, epoch: int, queue: int, ranges: Ranges, until: int) -> None:
        """Not called: the link has no consumers."""

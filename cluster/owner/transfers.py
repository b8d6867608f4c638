"""Takes dead letters of one partition to the owner of another one, and the questions of its owner."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from cluster.peers.ports import Delivery, OwnerPort, Ranges
from node.queue.transfers import Transfer

FIRST_TRANSIT_ID: Final = 1 << 63
"""Partitions that send dead letters are front ends to those that get them, numbered from here on by their own
number. Nodes' front ends have numbers below."""

EPOCHS_PER_TERM_BITS: Final = 24


class Question(NamedTuple):
    """Something that another owner has been asked, and not answered yet."""

    name: str
    arguments: list[Any]
    answer: Callable[[Any], None]


class TransferLink:
    """One partition's link to the owner of another (`cluster.peers.ports.FrontEndPort`), kept by the owner
    of the first, whose `term` it is.

    What sets out stands in the log of the first partition, with its number, before it comes here. Epochs
    grow with terms, so that an owner that leads no more is not heard after its successor.
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
        """`contents` encodes the operation batch of a transfer, None while that is impossible; `arrived`
        hears up to which number all have.
        """
        self.partition = partition
        self.owner_node: str | None = None
        self.stalled = False
        """Whether something could not be sent yet: begin anew when it may be possible."""
        self._owner: OwnerPort | None = None
        self._front_end = FIRST_TRANSIT_ID + source
        self._node = node
        self._epoch = term << EPOCHS_PER_TERM_BITS
        self._contents = contents
        self._arrived = arrived
        self._under_way: deque[Transfer] = deque()
        self._sent = 0
        self._asked = 0
        self._questions: dict[int, Question] = {}

    def __len__(self) -> int:
        """Transfers under way."""
        return len(self._under_way)

    def resume(self, transfers: Sequence[Transfer]) -> None:
        """What a former owner has sent, or was about to."""
        self._under_way.extend(transfers)
        self._sent = max([self._sent, *(transfer.number for transfer in transfers)])

    def send(self, transfer: Transfer) -> None:
        """A transfer whose beginning is committed."""
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
        """Ask whoever owns the other partition; asked again of the next owner, until there is an answer."""
        self._asked += 1
        self._questions[self._asked] = Question(name, arguments, answer)
        if self._owner is not None:
            self._owner.request(self._front_end, self._epoch, self._asked, name, arguments)

    # -- owners of the other partition ----------------------------------------------------------

    def owner_elected(self, node: str, owner: OwnerPort) -> None:
        """Greet whoever owns the other partition now."""
        self._owner, self.owner_node = owner, node
        self.resync()

    def owner_lost(self) -> None:
        self._owner = self.owner_node = None

    def resync(self) -> None:
        """Begin a new epoch, and send again what is not known to have arrived."""
        owner = self._owner
        if owner is None:
            return
        self._epoch += 1
        owner.hello(self._front_end, self._epoch, self._node, [], self._sent)
        self.stalled = False
        # An owner in this process answers at once, so what is under way may change under the loop.
        for transfer in list(self._under_way):
            if not self.stalled:
                self._send(owner, transfer)
        for number, question in list(self._questions.items()):
            owner.request(self._front_end, self._epoch, number, question.name, question.arguments)

    # -- what the owner says (FrontEndPort) -----------------------------------------------------

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        """What a full queue refuses of dead letters is dropped: to wait for room would keep it full."""
        before = len(self._under_way)
        while self._under_way and self._under_way[0].number <= number:
            self._under_way.popleft()
        if len(self._under_way) != before:
            self._arrived(number)

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        """There are no consumers here."""

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        """The answer to a question."""
        question = self._questions.pop(request, None) if epoch == self._epoch else None
        if question is not None:
            question.answer(value)

    def consumer_cancelled(self, epoch: int, consumer: int) -> None:
        """There are no consumers here."""

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        """There are no consumers here."""

"""The consumers of one queue: their credit, and in which order they are served."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from node.refusal import AccessRefusedError

ConsumerKey = tuple[int, int]
"""Front end, and the consumer's number there."""


class ExclusiveConsumerError(AccessRefusedError):
    """The queue has an exclusive consumer, or an exclusive one asks for a queue that is in use."""


@dataclass(slots=True, eq=False)
class Consumer:
    """One consumer: gets messages while `sent < limit`, both counted from its beginning, and it is `active`.

    `joined` and `activated` are for queues with a single active consumer, see `features.single_active`.
    `removes_soft`: soft messages are removed before it gets them, as all are where `no_ack`.
    """

    front_end: int
    number: int
    priority: int
    no_ack: bool
    exclusive: bool
    counted: bool
    sent: int
    limit: int
    in_line: bool = False
    active: bool = True
    joined: int = 0
    activated: int = 0
    stopped: bool = False
    removes_soft: bool = False


class Consumers:
    """Consumers by key. Those with credit stand in line: `lines` has one for each priority, highest first.

    `count` is how many there are to clients, `acking` how many settle what they get.
    """

    __slots__ = ("_by_key", "_by_priority", "_exclusive", "_priorities", "acking", "count", "lines")

    def __init__(self) -> None:
        self.count = 0
        self.acking = 0
        self.lines: list[deque[Consumer]] = []
        self._by_key: dict[ConsumerKey, Consumer] = {}
        self._by_priority: dict[int, deque[Consumer]] = {}
        self._priorities: Counter[int] = Counter()
        self._exclusive = False

    def __iter__(self) -> Iterator[ConsumerKey]:
        return iter(self._by_key)

    def get(self, front_end: int, number: int) -> Consumer | None:
        """The consumer, None when it is gone."""
        return self._by_key.get((front_end, number))

    def attach(
        self,
        front_end: int,
        number: int,
        *,
        priority: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
        counted: bool = True,
        sent: int = 0,
        joined: int = 0,
        activated: int = 0,
        removes_soft: bool = False,
    ) -> Consumer:
        """Add a consumer, without credit. The front end's ATTACH must have been applied before,
        or a new owner would not know whom to ask for leases.

        `counted` is False for a link of basic.get, which is no consumer to anybody; `sent` is what
        a consumer got from earlier owners. Raises ExclusiveConsumerError, and ValueError when the
        front end has a consumer of that number.
        """
        if (front_end, number) in self._by_key:
            raise ValueError(f"front end {front_end} has a consumer {number}")
        self._admit(counted=counted, exclusive=exclusive)
        made = Consumer(
            front_end, number, priority, no_ack, exclusive, counted, sent, sent,
            joined=joined, activated=activated, removes_soft=removes_soft,
        )  # fmt: skip
        self._by_key[front_end, number] = made
        if priority not in self._by_priority:
            self._by_priority[priority] = deque()
            self._arrange()
        self._priorities[priority] += 1
        self.acking += not no_ack
        self.count += counted
        self._exclusive |= exclusive
        self._added(made)
        return made

    def _admit(self, *, counted: bool, exclusive: bool) -> None:
        """Raises ExclusiveConsumerError where the consumer cannot be one beside those that there are."""
        if counted and self.count and (exclusive or self._exclusive):
            raise ExclusiveConsumerError("the queue has an exclusive consumer, or others than this one")

    def _added(self, made: Consumer) -> None:
        """A consumer has come: for queues that give each a part."""

    def detach(self, front_end: int, number: int) -> None:
        """Remove a consumer, if it is there; its leases stay with the front end."""
        gone = self._by_key.pop((front_end, number), None)
        if gone is None:
            return
        self._leave_line(gone)
        self._priorities[gone.priority] -= 1
        if not self._priorities[gone.priority]:
            del self._priorities[gone.priority], self._by_priority[gone.priority]
            self._arrange()
        self.acking -= not gone.no_ack
        self.count -= gone.counted
        if gone.exclusive:
            self._exclusive = False

    def _arrange(self) -> None:
        """There is another priority, or one less."""
        self.lines = [self._by_priority[each] for each in sorted(self._by_priority, reverse=True)]

    def detach_all(self, front_end: int) -> None:
        """Remove the front end's consumers; its leases stay."""
        for key in [key for key in self._by_key if key[0] == front_end]:
            self.detach(*key)

    def suspend(self, front_end: int) -> bool:
        """The front end's consumers may be about to come back, or what they had; whether others wait."""
        return False

    def resume(self, front_end: int) -> bool:
        """They are back, or gone; whether others may have waited for that."""
        return False

    def resume_all(self) -> None:
        """It was waited long enough for all."""

    def credit(self, front_end: int, number: int, limit: int) -> None:
        """Let the consumer have `limit` messages since its beginning; late news of a consumer that
        is gone is no error.
        """
        found = self._by_key.get((front_end, number))
        if found is None or found.stopped:
            return
        found.limit = limit
        if found.sent < limit and found.active and not found.in_line:
            found.in_line = True
            self._by_priority[found.priority].append(found)

    def stop(self, front_end: int, number: int) -> None:
        """Give a consumer nothing more, whatever credit it has, or will have: it is about to be detached."""
        found = self._by_key.get((front_end, number))
        if found is not None:
            self.revoke(found)
            found.stopped = True

    def given(self, consumer: Consumer, count: int) -> None:
        """The consumer got messages out of turn."""
        consumer.sent += count
        if consumer.sent >= consumer.limit:
            self._leave_line(consumer)

    @property
    def credit_left(self) -> int:
        """How many messages consumers would take now."""
        return sum(each.limit - each.sent for line in self.lines for each in line)

    def revoke(self, consumer: Consumer) -> int:
        """Take back the consumer's credit, and return how much that was."""
        revoked = max(0, consumer.limit - consumer.sent)
        consumer.limit = consumer.sent
        self._leave_line(consumer)
        return revoked

    def _leave_line(self, consumer: Consumer) -> None:
        if consumer.in_line:
            consumer.in_line = False
            self._by_priority[consumer.priority].remove(consumer)

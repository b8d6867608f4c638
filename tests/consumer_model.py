"""A model of one queue and its consumers: the consumers that may get each message, and the messages that must
come.

A reader can check the model without knowledge of the broker. Messages are numbers, in the order of their
publishes. The model leaves open which of several equal consumers gets a message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sharing:
    """The arguments of a queue. `single`: one consumer at a time is active."""

    levels: int | None = None
    grouped: bool = False
    single: bool = False


@dataclass(eq=False)
class Message:
    """A message. `group`: 0 for none. `failed`: the number of failed deliveries; `perhaps`: further ones,
    which only a lost owner knew. `may_have_come`: an owner was lost that may have leased the message.
    """

    number: int
    level: int = 0
    group: int = 0
    failed: int = 0
    perhaps: int = 0
    came_back: bool = False
    may_have_come: bool = False
    holder: Consumer | None = None


@dataclass(eq=False)
class Consumer:
    """A consumer. `window`: the largest number of its unsettled messages; None where it does not
    acknowledge.
    """

    number: int
    priority: int
    window: int | None
    holds: list[Message] = field(default_factory=list)

    @property
    def room(self) -> float:
        return math.inf if self.window is None else self.window - len(self.holds)


@dataclass(frozen=True)
class Delivered:
    consumer: Consumer
    number: int
    redelivered: bool
    failed: int


@dataclass
class ConsumerModel:
    """`consumers` are in the order of subscription. `counts`: deliveries have the number of failed ones."""

    sharing: Sharing
    counts: bool = True
    ready: list[Message] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    active: Consumer | None = None

    # -- what happens ---------------------------------------------------------------------------

    def published(self, messages: Iterable[Message]) -> None:
        self.ready.extend(messages)
        self._sort()

    def subscribed(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._elect()

    def replaced(self, consumer: Consumer, priority: int, window: int | None) -> None:
        """The consumer goes on by other terms, and keeps its messages, which may be more than its window."""
        consumer.priority, consumer.window = priority, window
        self._elect()

    def cancelled(self, consumer: Consumer) -> None:
        """The consumer is cancelled; its unsettled messages stay with its channel."""
        self._leave(consumer)
        self._elect()

    def lost(self, consumers: Iterable[Consumer], *, owner: bool = False) -> None:
        """The consumers' channels are lost, and their messages return. `owner`: the queue's owner may be
        lost, too.
        """
        for message in self.ready if owner else ():
            message.may_have_come = True
        for consumer in consumers:
            self._leave(consumer)
            for message in list(consumer.holds):
                self._back(message, known=not owner)
        self._elect()

    def settled(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._take_from_holder(message)
        self._elect()

    def given_back(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._back(message)
        self._elect()

    def _leave(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        if consumer is self.active:
            self.active = None

    def _take_from_holder(self, message: Message) -> None:
        assert message.holder is not None
        message.holder.holds.remove(message)
        message.holder = None
        self.held.remove(message)

    def _back(self, message: Message, *, known: bool = True) -> None:
        """Return a message. `known`: the queue's next owner knows that the delivery has failed."""
        self._take_from_holder(message)
        if known:
            message.failed += 1
        else:
            message.perhaps += 1
        message.came_back = True
        self.ready.append(message)
        self._sort()

    def _sort(self) -> None:
        self.ready.sort(key=self._place)

    def _place(self, message: Message) -> tuple[int, int]:
        return (
            0 if self.sharing.levels is None else -min(message.level, self.sharing.levels),
            message.number,
        )

    def _elect(self) -> None:
        """Elect the active consumer: the first subscriber stays it until it ends, or gives way without
        unsettled messages.
        """
        if not self.sharing.single or not self.consumers:
            return
        best = max(self.consumers, key=lambda one: one.priority)
        if self.active is None or (best.priority > self.active.priority and not self.active.holds):
            self.active = best

    # -- who may get what -----------------------------------------------------------------------

    def _served(self) -> list[Consumer]:
        """The consumers that may get messages now."""
        if not self.sharing.single:
            return self.consumers
        gives_way = self.active and any(one.priority > self.active.priority for one in self.consumers)
        return [] if self.active is None or gives_way else [self.active]

    def _may_get(self, message: Message) -> list[Consumer]:
        """The consumers that may get the message if they have room."""
        with_group = {id(one.holder): one.holder for one in self.held if one.group == message.group}
        if not (self.sharing.grouped and message.group and with_group):
            return self._served()
        [holder] = with_group.values()
        return [one for one in self._served() if one is holder]

    # -- what came ------------------------------------------------------------------------------

    def came(self, deliveries: Sequence[Delivered]) -> None:
        """Check the deliveries since the last step, in the order of each consumer, after one step and a
        pause.
        """
        known = {one.number: one for one in self.ready}
        messages = [known[one.number] for one in deliveries]
        self._check_order(deliveries, messages)
        for delivered, message in zip(deliveries, messages, strict=True):
            consumer = delivered.consumer
            assert consumer in self._may_get(message), f"{message} came to {consumer}"
            if self.counts:
                assert message.failed <= delivered.failed <= message.failed + message.perhaps
                message.failed, message.perhaps = delivered.failed, 0
            else:
                assert not delivered.failed
            assert delivered.redelivered == message.came_back or message.may_have_come
            self.ready.remove(message)
            message.may_have_come = False
            if consumer.window is not None:
                message.holder = consumer
                consumer.holds.append(message)
                self.held.append(message)
        self._check_room([one.consumer for one in deliveries])

    def _line(self, message: Message) -> int | None:
        """The line of a message, in which messages come in order. A queue with groups has a line for each
        group.
        """
        return (message.group or None) if self.sharing.grouped else 0

    def _check_order(self, deliveries: Sequence[Delivered], messages: list[Message]) -> None:
        """Check that the first messages of each line come first, and come to each consumer in order."""
        for line in {self._line(one) for one in messages} - {None}:
            waiting = [one for one in self.ready if self._line(one) == line]
            came = [one for one in messages if self._line(one) == line]
            assert {*came} == {*waiting[: len(came)]}, f"{came} came, of {waiting}"
            for consumer in {id(one.consumer) for one in deliveries}:
                pairs = zip(deliveries, messages, strict=True)
                mine = [two for one, two in pairs if id(one.consumer) == consumer and two in came]
                assert mine == sorted(mine, key=self._place), f"{mine} came in this order"

    def _check_room(self, recipients: Sequence[Consumer]) -> None:
        for consumer in recipients:
            assert consumer.room >= 0, f"{consumer} has too much"
        for message in self.ready:
            waiting = [one for one in self._may_get(message) if one.room > 0]
            assert not waiting, f"{message} waits, and so does {waiting[0]}"
        if self.sharing.single or self.sharing.grouped:
            return
        for consumer in recipients:
            for other in self.consumers:
                first = other.priority > consumer.priority and other.room > 0
                assert not first, f"{consumer} was served before {other}"

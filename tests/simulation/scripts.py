"""Clients that do one thing after the other: generators that yield what they wait for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cluster.catalog.placement import RestartedError
from cluster.catalog.replica import FELL_BEHIND
from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.simulation.clients import Client, Place
from tests.simulation.world import Action, World

Steps = Generator["Answer | float", Any, None]
"""Yields answers, whose values are sent to it, and times to pass in seconds."""


class LostError(Exception):
    """The client's node has ended: what it was asked for may be done or not."""


class RefusedError(Exception):
    """The broker has closed the channel, and a new one is open."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class Answer:
    """What a script waits for."""

    def __init__(self) -> None:
        self.given = False
        self.value: Any = None
        self.error: Exception | None = None
        self._waiting: Action | None = None

    def give(self, value: Any = None, error: Exception | None = None) -> None:
        """Only the first answer counts."""
        if not self.given:
            self.given, self.value, self.error = True, value, error
            if self._waiting is not None:
                self._waiting()

    def then(self, action: Action) -> None:
        if self.given:
            action()
        else:
            self._waiting = action


class Script:
    """Carries out steps, until they have ended."""

    def __init__(self, world: World, steps: Steps) -> None:
        self.done = False
        self._world = world
        self._steps = steps
        self._go_on(None)

    def _go_on(self, answer: Answer | None) -> None:
        try:
            if answer is not None and answer.error is not None:
                wanted = self._steps.throw(answer.error)
            else:
                wanted = self._steps.send(None if answer is None else answer.value)
        except StopIteration:
            self.done = True
            return
        if isinstance(wanted, Answer):
            wanted.then(lambda: self._go_on(wanted))
        else:
            self._world.after(wanted, lambda: self._go_on(None))


class Caller(Client):
    """A client whose requests can be waited for. Answers carry LostError and RefusedError."""

    def __init__(self, place: Place) -> None:
        self._open = False
        self._early: list[Action] = []
        self._pending: list[Answer] = []
        super().__init__(place)

    def opened(self) -> None:
        self._open = True
        early, self._early = self._early, []
        for action in early:
            action()

    def when_open(self, action: Action) -> None:
        """Do something as soon as there is a channel."""
        if self._open:
            action()
        else:
            self._early.append(action)

    def ask(self, method: Method) -> Answer:
        """Have the broker do something, once the channel is open."""
        answer = Answer()
        self.wait_for(answer)
        if not answer.given:
            self.when_open(lambda: self._ask(method, answer))
        return answer

    def wait_for(self, answer: Answer) -> None:
        """Give it an error when the node ends before there is an answer."""
        self._pending.append(answer)
        if not self.alive:
            self.lost()

    def _ask(self, method: Method, answer: Answer) -> None:
        def answered(value: Method) -> None:
            self._pending.remove(answer)
            answer.give(value)

        self.request(method, answered)

    def refused(self, code: int, text: str) -> None:
        self._open = False
        self._end(RefusedError(code, text))
        self._open_channel()

    def connection_closed(self, code: int, text: str) -> None:
        """A node whose catalog came as a snapshot does not know what its commands were answered."""
        if not self.node.leaving and (code, text) != (RestartedError.code, f"INTERNAL_ERROR - {FELL_BEHIND}"):
            super().connection_closed(code, text)
        self.connection.drop()
        self.closed = True
        self.lost()

    def lost(self) -> None:
        """The node's process has ended."""
        self._end(LostError())

    def _end(self, error: Exception) -> None:
        pending, self._pending = self._pending, []
        self._early.clear()
        for answer in pending:
            answer.give(error=error)

    def leave(self) -> None:
        """Close the connection."""
        self.connection.send(0, m.ConnectionClose(200, "done"))
        self.closed = True

    def received(self, method: Method, content: bytes) -> None:
        """What comes when the node has ended comes too late: the client was told that it is lost."""
        if self.alive:
            super().received(method, content)

"""Clients with sequential scripts: generators that yield the answers and times that they wait for."""

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
"""A generator that yields answers, and is sent their values, and yields times to wait in seconds."""


class LostError(Exception):
    """The client's node has ended: the request may be carried out or not."""


class RefusedError(Exception):
    """The broker has closed the channel, and a new one is open."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class Answer:
    """An answer that a script waits for."""

    def __init__(self) -> None:
        self.given = False
        self.value: Any = None
        self.error: Exception | None = None
        self._waiting: Action | None = None

    def give(self, value: Any = None, error: Exception | None = None) -> None:
        """Set the value or the error; only the first call counts."""
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
    """Carries out the steps of a generator until it ends."""

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
        """Do something as soon as the client has a channel."""
        if self._open:
            action()
        else:
            self._early.append(action)

    def ask(self, method: Method) -> Answer:
        """Send a request once the channel is open; the result is its answer."""
        answer = Answer()
        self.wait_for(answer)
        if not answer.given:
            self.when_open(lambda: self._ask(method, answer))
        return answer

    def wait_for(self, answer: Answer) -> None:
        """Give the answer a LostError if the node ends first."""
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
        """A node that got the catalog as a snapshot cannot answer its commands, and closes the connection."""
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
        """Ignore methods that arrive after the node's end, when requests have got LostError."""
        if self.alive:
            super().received(method, content)

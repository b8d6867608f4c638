"""Carries out the effects of a connection in one loop, so that pipelined requests do not grow the stack."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from node.session.core import Containment
from node.wire.amqp091 import effects
from node.wire.amqp091.connection import Connection

GIVING_BACK: Final = frozenset(
    (
        effects.SettleEffect,
        effects.Rollback,
        effects.ChannelClosed,
        effects.ConnectionClosed,
    )
)
"""Effects that return something from the session to the broker. A failed session carries them out, too."""


class EffectLoop:
    """The effects to carry out, in their order. `more` takes the effects that the protocol machine has made
    meanwhile.
    """

    def __init__(
        self,
        handlers: Mapping[type[effects.Effect], Callable[[Any], None]],
        more: Callable[[], list[effects.Effect]],
    ) -> None:
        self.running = self.closed = False
        self.failed = False
        """The session has failed: only `GIVING_BACK` is carried out, and an exception of one effect does not
        stop the next one.
        """
        self._handlers = handlers
        self._more = more
        self._due: deque[effects.Effect] = deque()

    def close(self) -> None:
        """Carry out nothing more, and drop the references to the handlers."""
        self._handlers = {}
        self._due.clear()
        self.closed = True

    def carry_out(self, wanted: list[effects.Effect], contained: Containment) -> bool:
        """Carry out these effects and all that follow from them. False where the loop runs already, further
        up the stack, or is closed.

        A request that the broker answers at once calls back from inside the loop. The loop carries out the
        effects of that answer after the call: otherwise a client could overflow the stack with pipelined
        requests. After an exception the remaining effects stay in the loop.
        """
        due = self._due
        if self.closed:
            return False
        due.extend(wanted)
        if self.running:
            return False
        self.running = True
        try:
            while due:
                effect = due.popleft()
                if not self.failed:
                    self._handlers[type(effect)](effect)
                elif type(effect) in GIVING_BACK:
                    with contained:
                        self._handlers[type(effect)](effect)
                if not due:
                    due.extend(self._more())
        finally:
            self.running = False
        return True


def answer(connection: Connection, effect: effects.AnswerEffect) -> None:
    """Answer a request that needs no command of the broker, in the order of requests."""
    connection.reply(effect.channel, effect.method)


def refuse(connection: Connection, effect: effects.RefuseEffect) -> None:
    """Refuse a request, in the order of requests."""
    connection.fail(effect.channel, effect.error)

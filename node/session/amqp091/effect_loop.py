"""Carries out the effects of a connection in one loop, however many requests a client has pipelined."""

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
        effects.ReturnEffect,
        effects.DiscardEffect,
        effects.Rollback,
        effects.ChannelClosed,
        effects.ConnectionClosed,
    )
)
"""Effects by which something leaves a session: they are carried out for one that has failed, too."""


class EffectLoop:
    """The effects that are due, in their order. `more` has those that carrying these out has led to."""

    def __init__(
        self,
        handlers: Mapping[type[effects.Effect], Callable[[Any], None]],
        more: Callable[[], list[effects.Effect]],
    ) -> None:
        self.running = self.closed = False
        self.failed = False
        """From now on only what gives back is carried out, each by itself: one may fail like another."""
        self._handlers = handlers
        self._more = more
        self._due: deque[effects.Effect] = deque()

    def close(self) -> None:
        """Nothing is carried out any more, and nothing is kept that a handler refers to."""
        self._handlers = {}
        self._due.clear()
        self.closed = True

    def carry_out(self, wanted: list[effects.Effect], contained: Containment) -> bool:
        """Carry out all there is; False where that is going on already, further up the stack.

        A request that is answered at once calls back from within. If its answer's effects were carried out
        there, a client could have the stack end by what it sends. After an exception what is due stays due.
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
    """Answer a request that asks nothing of the broker, in its turn."""
    connection.reply(effect.channel, effect.method)


def refuse(connection: Connection, effect: effects.RefuseEffect) -> None:
    """Refuse a request, in its turn."""
    connection.fail(effect.channel, effect.error)

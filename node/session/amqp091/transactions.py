"""What the transactions of a session's channels will publish, from basic.publish to tx.commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from node.message.run import Run
from node.refusal import Refusal
from node.session.ports import BrokerPort, Outcome, Route, Settlement
from node.wire.amqp091 import effects, methods

if TYPE_CHECKING:
    from node.session.amqp091.session import Session


class HeldRun(NamedTuple):
    """A run with the route that it had when it was published."""

    run: Run
    route: Route
    mandatory: bool


class Transactions:
    """Held runs by channel. The settlements of a transaction are with its channel until the commit."""

    def __init__(self, port: BrokerPort, session: Session) -> None:
        self._port = port
        self._session = session
        self._held: dict[int, list[HeldRun]] = {}

    def hold(self, channel: int, run: Run, route: Route, mandatory: bool) -> None:
        """Part of the channel's transaction; `route` may lead nowhere."""
        self._held.setdefault(channel, []).append(HeldRun(run, route, mandatory))

    def roll_back(self, effect: effects.Rollback) -> None:
        """Nothing of it is published."""
        self._held.pop(effect.channel, None)

    def commit(self, effect: effects.Commit) -> None:
        """Publish and settle as one, then answer the client."""
        held = self._held.pop(effect.channel, [])
        publishes = []
        lost = []
        for one in held:
            self._session.traffic.published += one.run.count
            one.route.flow.published += one.run.count
            # A queue may be gone since; only who asked to be told will be, as in RabbitMQ.
            if one.route and (not one.mandatory or self._port.still_leads(one.route)):
                publishes.append((one.run, one.route))
            else:
                lost.append(one)

        def answer(refusal: Refusal | None) -> None:
            if refusal is not None:
                self._session.fail(effect.channel, refusal)
                return
            for one in lost:
                self._session.unroutable(effect.channel, one.run, one.mandatory)
            self._session.reply(effect.channel, methods.TxCommitOk())

        self._port.commit(publishes, [_settlement(one) for one in effect.settled], answer)


_OUTCOMES: Final = {
    effects.Settle: Outcome.ACCEPTED,
    effects.Discard: Outcome.REJECTED,
    effects.Return: Outcome.RETURNED,
}


def _settlement(effect: effects.Settlement) -> Settlement:
    return Settlement(effect.consumer, effect.ranges, _OUTCOMES[type(effect)])

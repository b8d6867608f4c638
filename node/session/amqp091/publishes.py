"""What the channels of a session publish: finds where each run goes, for the broker or a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.message.content import properties_in, read_headers_property
from node.message.rewriting import with_properties
from node.message.run import Run
from node.message.sender_selected import may_have_copies, read_copies, without_blind_copies
from node.refusal import Refusal
from node.session.amqp091.transactions import Transactions
from node.session.ports import BrokerPort, Route
from node.wire.amqp091 import effects

if TYPE_CHECKING:
    from node.session.amqp091.session import Session


class Publishes:
    """What clients publish on one session."""

    def __init__(self, port: BrokerPort, session: Session, transactions: Transactions) -> None:
        self._port = port
        self._session = session
        self._transactions = transactions

    def publish(self, effect: effects.Publish) -> None:
        """Route a run, and publish it, or hold it back for its transaction."""
        run, session = effect.run, self._session
        try:
            if may_have_copies(run) or self._port.needs_headers(session.scope, run.exchange):
                self._publish_one_by_one(effect)
                return
            route = self._port.route(session.scope, run.exchange, run.routing_key)
        except Refusal as refusal:
            session.connection.fail_publish(effect.channel, refusal)
            return
        self._publish_along(effect, run, route, effect.first_tag)

    def _publish_along(self, effect: effects.Publish, run: Run, route: Route, first_tag: int) -> None:
        if type(effect) is effects.HoldPublish:
            self._transactions.hold(effect.channel, run, route, effect.mandatory)
            return
        session, count = self._session, run.count
        traffic = session.traffic
        traffic.published += count
        if first_tag > 0:
            traffic.confirmable += count
        route.flow.published += count
        if route:
            if not self._port.publish(session, effect.channel, run, route, first_tag):
                session.hold(effect.channel)
            return
        session.unroutable(effect.channel, run, effect.mandatory)
        if first_tag:
            # A message that no queue takes is confirmed at once: nothing more will happen to it.
            session.confirm(effect.channel, first_tag, first_tag + run.count - 1)

    def _publish_one_by_one(self, effect: effects.Publish) -> None:
        """Messages with headers of their own have routes of their own."""
        run, scope = effect.run, self._session.scope
        by_headers = self._port.needs_headers(scope, run.exchange)
        for first, count, properties in properties_in(run):
            headers = read_headers_property(properties) if by_headers else None
            copies = read_copies(properties)
            route = self._port.route(scope, run.exchange, run.routing_key, headers, copies.keys)
            tag = effect.first_tag + first if effect.first_tag else 0
            piece = run.slice(first, count)
            if copies.blind:
                piece = with_properties(piece, without_blind_copies)
            self._publish_along(effect, piece, route, tag)

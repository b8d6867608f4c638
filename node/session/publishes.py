"""What the client of a session publishes: finds where each run goes, for the broker or a transaction.

A transaction holds its runs back until it is committed, with the routes that they had when they were
published. What it settles is with the protocol's machine until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from node.message.run import Run
from node.refusal import Refusal
from node.session.permissions import Scope
from node.session.ports import BrokerPort, Done, Route, Settlement, Subscriber
from node.session.traffic import Traffic
from node.wire.formats import format_of


class PublishingSession(Subscriber, Protocol):
    """What becomes of what was published. A channel is what a client publishes on in one order."""

    def hold(self, channel: int) -> None:
        """What the channel has published fills a link: it is to publish no more before `unblocked`."""

    def return_unroutable(self, channel: int, run: Run) -> None:
        """No queue takes the messages, and the client wants to know. Comes before they are confirmed."""

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        """There is no such exchange, or the user may not publish there: the run is not published."""


class HeldRun(NamedTuple):
    """A run of a transaction; `route` may lead nowhere."""

    run: Run
    route: Route
    mandatory: bool


class Publishes:
    """The publishes of one session, and the transactions of its channels."""

    def __init__(self, port: BrokerPort, session: PublishingSession, traffic: Traffic) -> None:
        self._port = port
        self._session = session
        self._traffic = traffic
        self._held: dict[int, list[HeldRun]] = {}
        """What the transaction of each channel will publish."""

    def publish(
        self, scope: Scope, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool = False
    ) -> None:
        """Route a run, and publish it, or hold it back for the channel's transaction.

        Its messages are confirmed under the tags from `first_tag` on; 0: not. `mandatory`: the client is told
        of messages that no queue takes.
        """
        try:
            if format_of(run).may_have_copies(run) or self._port.needs_headers(scope, run.exchange):
                self._publish_one_by_one(scope, channel, run, mandatory, first_tag, held)
                return
            route = self._port.route(scope, run.exchange, run.routing_key)
        except Refusal as refusal:
            self._session.publish_refused(channel, refusal)
            return
        self._publish_along(route, channel, run, mandatory, first_tag, held)

    def _publish_along(
        self, route: Route, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        if held:
            self._held.setdefault(channel, []).append(HeldRun(run, route, mandatory))
            return
        session, traffic, count = self._session, self._traffic, run.count
        traffic.published += count
        if first_tag > 0:
            traffic.confirmable += count
        route.flow.published += count
        if route:
            if not self._port.publish(session, channel, run, route, first_tag):
                session.hold(channel)
            return
        self._unroutable(channel, run, mandatory)
        if first_tag:
            # A message that no queue takes is confirmed at once: nothing more will happen to it.
            session.confirm(channel, first_tag, first_tag + run.count - 1)

    def _publish_one_by_one(
        self, scope: Scope, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        """Messages with headers of their own have routes of their own."""
        by_headers = self._port.needs_headers(scope, run.exchange)
        messages = format_of(run)
        for first, count, properties in messages.properties_in(run):
            headers = messages.headers(properties) if by_headers else None
            copies = messages.copies(properties)
            route = self._port.route(scope, run.exchange, run.routing_key, headers, copies.keys)
            tag = first_tag + first if first_tag else 0
            piece = run.slice(first, count)
            if copies.blind:
                piece = messages.without_blind_copies(piece)
            self._publish_along(route, channel, piece, mandatory, tag, held)

    def _unroutable(self, channel: int, run: Run, mandatory: bool) -> None:
        if mandatory:
            self._traffic.returned += run.count
            self._session.return_unroutable(channel, run)
        else:
            self._traffic.dropped += run.count

    # -- transactions ---------------------------------------------------------------------------

    def roll_back(self, channel: int) -> None:
        """Nothing of the channel's transaction is published."""
        self._held.pop(channel, None)

    def commit(self, channel: int, settled: Sequence[Settlement], done: Done) -> None:
        """Publish what the channel's transaction holds, and settle: all of it, or with a refusal nothing.

        The client hears of messages that no queue takes before `done` is called.
        """
        publishes: list[tuple[Run, Route]] = []
        lost: list[HeldRun] = []
        for one in self._held.pop(channel, []):
            self._traffic.published += one.run.count
            one.route.flow.published += one.run.count
            # A queue may be gone since; only a client that asked to be told will be, as in RabbitMQ.
            if one.route and (not one.mandatory or self._port.still_leads(one.route)):
                publishes.append((one.run, one.route))
            else:
                lost.append(one)

        def answered(refusal: Refusal | None) -> None:
            if refusal is None:
                for one in lost:
                    self._unroutable(channel, one.run, one.mandatory)
            done(refusal)

        self._port.commit(publishes, settled, answered)

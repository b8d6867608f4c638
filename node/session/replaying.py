"""Prepares messages of a queue to be published anew: as they were first, by the rights of another user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from node.delivery.deeds import ReplayTarget
from node.message.run import Run
from node.refusal import Refusal
from node.session.permissions import Scope
from node.session.ports import BrokerPort, Route
from node.wire.formats import format_of


class Replay:
    """Implements `node.delivery.deeds.Replaying` with the rights of `scope`."""

    def __init__(self, port: BrokerPort, scope: Scope, target: ReplayTarget) -> None:
        self._port, self._scope, self._target = port, scope, target

    def published(self, run: Run) -> Iterator[tuple[int, Run, Route | None]]:
        messages, place = format_of(run), 0
        for key, same in messages.by_key(run):
            for index, count, properties in messages.properties_in(same):
                yield place + index, *self._anew(same.slice(index, count), key, properties)
            place += same.count

    def _anew(self, run: Run, key: str, properties: bytes) -> tuple[Run, Route | None]:
        """Messages with one routing key and the same properties, as they are published, and their route."""
        messages = format_of(run)
        origin = messages.first_publish(properties)
        exchange, keys = run.exchange, (key, *messages.copied_keys(properties))
        if origin is not None:
            exchange, keys = origin
            run = messages.without_deaths(run, properties)
        if self._target.exchange is not None:
            exchange = self._target.exchange
        if self._target.routing_key is not None:
            keys = (self._target.routing_key,)
        run = replace(run, exchange=exchange, routing_key=keys[0])
        return run, self._route(run, keys[0], keys[1:])

    def _route(self, run: Run, key: str, copies: Sequence[str]) -> Route | None:
        """None where no queue takes the messages, and where the user may not publish them."""
        messages, headers = format_of(run), None
        try:
            if self._port.header_names(self._scope, run.exchange) is not None:
                _, _, properties = next(messages.properties_in(run))
                headers = messages.headers(properties)
            return self._port.route(self._scope, run.exchange, key, headers, copies) or None
        except Refusal:
            return None

"""Carries out definitions: users and virtual hosts, then exchanges, queues, views and bindings, many at a
time.

An import replaces users, permissions, descriptions and views, and leaves existing exchanges, queues and
bindings as they are: importing a file twice changes nothing. Queues are spread over the nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import compress, cycle
from operator import not_
from typing import Any, Final, TypeVar

from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.definition_format import DefinedBinding, Definitions
from cluster.admin.api.errors import ApiError, bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.permission_views import set_permission, set_topic_permission
from cluster.admin.api.policy_views import set_policy
from cluster.admin.api.services import Services
from cluster.admin.api.user_views import set_user
from cluster.admin.api.vhost_views import set_vhost
from cluster.admin.api.views_over_queues import set_view
from cluster.catalog.views import ViewDefinition
from node.message.streams import X_DEFAULT_PUBLISH_TARGET, X_UNDERLYING_TOPIC, X_VIEW
from node.refusal import Refusal
from node.routing.exchange import Exchange, asked_kind
from node.routing.matching import Binding
from node.session.commands import DeclareExchange, DeclareQueue

AT_A_TIME: Final = 128
"""Changes on their way to the catalog at once."""

SHOWN_REFUSALS: Final = 20

_T = TypeVar("_T")


class DefinitionImport:
    """One import. A refused entry is noted, and the import goes on with the next."""

    def __init__(self, services: Services, definitions: Definitions) -> None:
        self._services = services
        self._definitions = definitions
        self._refusals: list[str] = []
        self._nodes = cycle(services.running)

    async def run(self) -> None:
        """Import all entries. Raises ApiError that lists the refused ones."""
        found = self._definitions
        known = {*self._services.state.vhosts, *(name for name, _ in found.vhosts)}
        for vhost in sorted(found.needed_vhosts() - known):
            raise bad_request(["no_such_vhost", vhost])
        for entries, carry_out in (
            (found.users, self._user),
            (found.vhosts, self._vhost),
            (found.permissions, self._permission),
            (found.topic_permissions, self._topic_permission),
            (found.limits, self._limit),
            (found.policies, self._policy),
            (found.exchanges, self._exchange),
            ([one for one in found.queues if not _needs_others(one)], self._queue),
        ):
            await self._carry_out(entries, carry_out)  # type: ignore[arg-type]
        await self._dependent()
        await self._carry_out(found.bindings, self._binding)
        if self._refusals:
            raise bad_request("; ".join(self._refusals[:SHOWN_REFUSALS]))

    async def _dependent(self) -> None:
        """Import views, and queues that need streams or views, each behind those that it needs."""
        queues, views = (
            [one for one in self._definitions.queues if _needs_others(one)],
            self._definitions.views,
        )
        while queues or views:
            ready = [self._is_ready(one) for one in queues]
            fit = [(vhost, view.queue) in self._services.state.queues for vhost, view in views]
            if not (any(ready) or any(fit)):
                # These are refused, each with the reason.
                ready, fit = [True] * len(queues), [True] * len(views)
            await self._carry_out(compress(queues, ready), self._queue)
            await self._carry_out(compress(views, fit), self._view)
            queues = list(compress(queues, map(not_, ready)))
            views = list(compress(views, map(not_, fit)))

    def _is_ready(self, entry: tuple[str, DeclareQueue]) -> bool:
        """Whether the stream and the view are there that a queue needs."""
        vhost, arguments, state = entry[0], entry[1].declaration.arguments, self._services.state
        topic = arguments.get(X_DEFAULT_PUBLISH_TARGET, arguments.get(X_UNDERLYING_TOPIC))
        view = arguments.get(X_VIEW)
        has_stream = topic is None or (vhost, topic) in state.queues
        return has_stream and (view is None or state.views.get(vhost, view) is not None)

    async def _carry_out(self, entries: Iterable[_T], carry_out: Callable[[_T], Awaitable[None]]) -> None:
        places = asyncio.Semaphore(AT_A_TIME)

        async def one(entry: _T) -> None:
            async with places:
                try:
                    await carry_out(entry)
                except Refusal as refusal:
                    self._refusals.append(str(refusal))
                except ApiError as error:
                    if error.status >= 500:
                        raise
                    self._refusals.append(str(error.reason))

        await asyncio.gather(*(one(entry) for entry in entries))

    # -- users and virtual hosts --------------------------------------------------------------------------

    async def _user(self, entry: tuple[str, Any]) -> None:
        name, fields = entry
        await set_user(self._services, name, fields)
        limits = Fields(fields.table("limits"))
        for limit in limits.values:
            await decided(partial(self._services.access.set_user_limit, name, limit, limits.integer(limit)))

    async def _vhost(self, entry: tuple[str, Any]) -> None:
        await set_vhost(self._services, *entry)

    async def _permission(self, entry: tuple[str, str, Any]) -> None:
        await set_permission(self._services, *entry)

    async def _topic_permission(self, entry: tuple[str, str, Any]) -> None:
        await set_topic_permission(self._services, *entry)

    async def _limit(self, entry: tuple[str, str, int]) -> None:
        change = self._services.access.set_vhost_limit
        await decided(lambda answer: change(*entry, answer))

    async def _policy(self, entry: tuple[str, bool, dict[str, Any]]) -> None:
        vhost, operator, policy = entry
        await set_policy(self._services, vhost, policy, operator=operator)

    # -- exchanges, queues, bindings ------------------------------------------------------------

    async def _exchange(self, entry: tuple[str, DeclareExchange]) -> None:
        vhost, command = entry
        if any(one.name == command.name for one in self._services.state.vhosts[vhost].exchanges):
            return
        alternate = command.arguments.get("alternate-exchange")
        kind, delayed = asked_kind(command.kind, command.arguments)
        exchange = Exchange(
            command.name,
            kind,
            durable=command.durable,
            auto_delete=command.auto_delete,
            internal=command.internal,
            alternate=alternate if isinstance(alternate, str) else None,
            delayed=delayed,
        )
        declare = self._services.front_end.declare_exchange
        await decided(lambda answer: declare(vhost, exchange, lambda refusal: answer(None, refusal)))

    async def _queue(self, entry: tuple[str, DeclareQueue]) -> None:
        vhost, declaration = entry[0], entry[1].declaration
        if (vhost, declaration.name) in self._services.state.queues:
            return
        node = next(self._nodes)
        declare = self._services.front_end.declare_queue
        await decided(lambda answer: declare(vhost, declaration, 0, answer, node))

    async def _binding(self, entry: DefinedBinding) -> None:
        binding = Binding.of(entry.source, entry.destination, entry.routing_key, entry.arguments)
        bind = self._services.front_end.bind
        await decided(
            lambda answer: bind(entry.vhost, binding, entry.arguments, lambda refusal: answer(None, refusal))
        )

    async def _view(self, entry: tuple[str, ViewDefinition]) -> None:
        await set_view(self._services, *entry)


def _needs_others(entry: tuple[str, DeclareQueue]) -> bool:
    """Whether a queue needs a stream or a view."""
    return not entry[1].declaration.arguments.keys().isdisjoint((X_UNDERLYING_TOPIC, X_VIEW))

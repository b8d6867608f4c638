"""Changes of exchanges and bindings by clients of a node."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.catalog.definitions import parse_local_queue_name
from cluster.catalog.replica import CatalogClient
from cluster.catalog.virtual_host import binding_to_plain, exchange_to_plain
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.queue_placing import QueuePlacing
from node.refusal import Refusal
from node.routing.exchange import Exchange
from node.routing.matching import Binding, DestinationKind
from node.session.ports import Done


class ExchangeChanges:
    """The changes of one node's connections. Each is answered once every node sees it."""

    def __init__(self, catalog: CatalogClient, local: LocalQueues, placing: QueuePlacing) -> None:
        self._catalog, self._local, self._placing = catalog, local, placing

    def declare(self, vhost: str, exchange: Exchange, answer: Done) -> None:
        """Declare an exchange. An exchange that is there is compared with the declaration."""
        try:
            if self._catalog.state.vhost(vhost).exchanges.declared(exchange):
                self._catalog.when_visible(partial(answer, None))
                return
        except Refusal as refusal:
            answer(refusal)
            return
        arguments = {"vhost": vhost, "exchange": exchange_to_plain(exchange)}
        self._catalog.submit("declare_exchange", arguments, lambda _, refusal: answer(refusal))

    def delete(self, vhost: str, name: str, if_unused: bool, answer: Done) -> None:
        """Delete an exchange, `if_unused` only without bindings."""
        arguments = {"vhost": vhost, "name": name, "if_unused": if_unused}
        self._catalog.submit("delete_exchange", arguments, lambda _, refusal: answer(refusal))

    def bind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None:
        """Bind a queue or an exchange to an exchange."""
        self._change_binding("bind", vhost, binding, arguments, answer)

    def unbind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None:
        """Remove a binding."""
        self._change_binding("unbind", vhost, binding, arguments, answer)

    def _change_binding(
        self, change: str, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done
    ) -> None:
        binding = self._placing.binding_here(vhost, binding)
        kind, name = binding.destination
        if kind is DestinationKind.QUEUE and parse_local_queue_name(name) is not None:
            # The catalog has only the bindings of such a queue, so this node must have them removed later.
            self._local.bound(name)
        else:
            try:
                bound = self._catalog.state.vhost(vhost).exchanges.bound(binding)
            except Refusal as refusal:
                answer(refusal)
                return
            if bound is (change == "bind"):
                self._catalog.when_visible(partial(answer, None))
                return
        plain = binding_to_plain(vhost, binding, arguments)
        self._catalog.submit(change, plain, lambda _, refusal: answer(refusal))

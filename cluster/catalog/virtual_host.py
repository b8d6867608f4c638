"""A virtual host of the catalog: its exchanges and bindings, and their plain form in snapshots."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from node.routing.exchange import PREDECLARED, Exchange, ExchangeKind, Exchanges
from node.routing.matching import Binding, Destination, DestinationKind


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """A namespace (0-9-1 §3.1.2): its exchanges, and the arguments of bindings as clients gave them."""

    exchanges: Exchanges
    arguments: dict[Binding, dict[str, Any]]

    def temporary(self) -> list[str]:
        """The names of exchanges that are not durable: they last until the whole cluster is down (§3.1.3)."""
        return [exchange.name for exchange in self.exchanges if not exchange.durable]

    def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        """Raises what `Exchanges.delete` raises."""
        ends = Destination(DestinationKind.EXCHANGE, name)
        bindings = self.exchanges.bindings(name) + self.exchanges.bindings(destination=ends)
        self._forget(bindings, self.exchanges.delete(name, if_unused)[1:])

    def unbind(self, binding: Binding) -> None:
        """Raises what `Exchanges.unbind` raises."""
        self._forget([binding], self.exchanges.unbind(binding))

    def remove_queue(self, name: str) -> None:
        """Remove a queue's bindings, which die with the queue (§3.1.10)."""
        bindings = self.exchanges.bindings(destination=Destination(DestinationKind.QUEUE, name))
        self._forget(bindings, self.exchanges.remove_queue(name))

    def rename_queue(self, name: str, new: str) -> None:
        """Give a queue's bindings its new name. No exchange is without a binding meanwhile."""
        self.exchanges.add_queue(new)
        for binding in self.exchanges.bindings(destination=Destination(DestinationKind.QUEUE, name)):
            moved = binding._replace(destination=Destination(DestinationKind.QUEUE, new))
            if self.exchanges.bind(moved):
                self.arguments[moved] = self.arguments.get(binding, {})
        self.remove_queue(name)

    def _forget(self, bindings: list[Binding], auto_deleted: list[str]) -> None:
        """Forget the arguments of removed bindings, and of the bindings of exchanges deleted with them."""
        if auto_deleted:
            left = set(self.exchanges.bindings())
            bindings = [*bindings, *(binding for binding in self.arguments if binding not in left)]
        for binding in bindings:
            self.arguments.pop(binding, None)


_PREDECLARED_NAMES: Final = frozenset(exchange.name for exchange in PREDECLARED)


def binding_to_plain(vhost: str, binding: Binding, arguments: dict[str, Any]) -> dict[str, Any]:
    """A binding as the commands `bind` and `unbind` have it."""
    return {
        "vhost": vhost,
        "source": binding.source,
        "kind": binding.destination.kind.value,
        "destination": binding.destination.name,
        "key": binding.key,
        "arguments": arguments,
    }


def exchange_to_plain(exchange: Exchange) -> dict[str, Any]:
    return {**asdict(exchange), "kind": exchange.kind.value}


def exchange_from_plain(plain: dict[str, Any]) -> Exchange:
    return Exchange(**{**plain, "kind": ExchangeKind(plain["kind"])})


def vhost_to_plain(vhost: VirtualHost) -> dict[str, Any]:
    own = [exchange for exchange in vhost.exchanges if exchange.name not in _PREDECLARED_NAMES]
    return {
        "exchanges": [exchange_to_plain(exchange) for exchange in own],
        "bindings": [
            {
                "source": binding.source,
                "kind": binding.destination.kind.value,
                "destination": binding.destination.name,
                "key": binding.key,
                "arguments": vhost.arguments.get(binding, {}),
            }
            for binding in vhost.exchanges.bindings()
        ],
    }

"""What all clients of a node make it hold, in octets (docs/decisions/0018-memory-budget.md)."""

from __future__ import annotations

from typing import Final

MUCH_BYTES: Final = 32 * 1024 * 1024


class ClientMemory:
    """The octets that each client holds, by its number, and their sum. At most `limit` are granted to all."""

    __slots__ = ("_by_client", "_highest", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._by_client: dict[int, int] = {}
        self._highest = 0

    def changed(self, client: int, held: int) -> bool:
        """A client holds so much now; whether all of them together hold too much."""
        self.total += held - self._by_client.get(client, 0)
        self._by_client[client] = held
        if self.total > self._highest:
            self._highest = self.total
        return self.total > self.limit

    def fell(self) -> bool:
        """Whether it has become less, by a lot, since this was asked: what it took may be given back."""
        if self._highest - self.total < MUCH_BYTES:
            return False
        self._highest = self.total
        return True

    def gone(self, client: int) -> None:
        """The client holds nothing any more."""
        self.total -= self._by_client.pop(client, 0)

    def largest(self) -> int:
        """Who holds most."""
        return max(self._by_client, key=self._by_client.__getitem__)

"""The memory that the clients of a node take up (docs/decisions/0018-memory-budget.md)."""

from __future__ import annotations

from typing import Final

MUCH_BYTES: Final = 32 * 1024 * 1024
"""By so many octets must the sum fall before `ClientMemory.fell` says so."""


class ClientMemory:
    """The octets of memory that each client takes up, by its number, and their sum `total`.

    `limit` bounds the sum; the listener closes the largest clients when the sum exceeds it.
    """

    __slots__ = ("_by_client", "_highest", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._by_client: dict[int, int] = {}
        self._highest = 0

    def changed(self, client: int, held: int) -> bool:
        """The client takes up `held` octets now. Returns whether the sum exceeds the limit."""
        self.total += held - self._by_client.get(client, 0)
        self._by_client[client] = held
        if self.total > self._highest:
            self._highest = self.total
        return self.total > self.limit

    def fell(self) -> bool:
        """Whether the sum has fallen by `MUCH_BYTES` or more from its highest value. A True begins the next
        comparison. The caller then gives freed memory back to the operating system.
        """
        if self._highest - self.total < MUCH_BYTES:
            return False
        self._highest = self.total
        return True

    def gone(self, client: int) -> None:
        """The client is closed."""
        self.total -= self._by_client.pop(client, 0)

    def largest(self) -> int:
        """The number of the client that takes up most. Raises ValueError without clients."""
        return max(self._by_client, key=self._by_client.__getitem__)

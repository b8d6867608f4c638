"""The links of AMQP 1.0 that queues know beyond their connections, as sessions see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

LinkFound = Callable[[str | None, int], None]
"""Called with the name of the queue that keeps messages for a link, None if there is no such queue, and the
seconds for which the queue keeps them while the link is not attached; 0: without end.
"""


class LinkPort(Protocol):
    """Finds links (`node.delivery.link_terms`)."""

    def find(self, vhost: str, identity: bytes, answer: LinkFound) -> None:
        """Find a queue of a virtual host that has a link, or that keeps messages for the link. `answer` comes
        once an owner has the link, or all owners that can be reached have said that they do not have it.
        """

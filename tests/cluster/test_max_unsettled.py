"""Consumers of a queue with x-max-unsettled together have no more than so many unsettled messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.kinds import client, declared
from tests.site import Client

__all__ = ["client", "declared"]


@pytest.mark.requirement("D6.3")
@pytest.mark.parametrize("mode", [1, 2])
def test_consumers_get_more_once_something_is_settled(client: Client, declared: Any, mode: int) -> None:
    queue = declared(max_unsettled=2)
    client.consume(queue, "a")
    client.consume(queue, "b")
    client.confirms(client.publish(queue, b"1", b"2", b"3", b"4", delivery_mode=mode))
    client.site.run(0.1)
    assert [one.body for one in client.deliveries] == [b"1", b"2"]
    client.ack(client.deliveries[0])
    client.site.run(0.1)
    assert [one.body for one in client.deliveries] == [b"1", b"2", b"3"]

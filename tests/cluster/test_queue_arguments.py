"""Every argument of RabbitMQ is accepted, has its effect or is refused, on every kind of queue (A24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.kinds import client, declared
from tests.site import ChannelClosedError, Client

__all__ = ["client", "declared"]


ACCEPTED: dict[str, Any] = {
    "max_priority": 255, "message_ttl": 0, "expires": 60_000, "max_length": 0, "max_length_bytes": 1,
    "overflow": "reject-publish-dlx", "dead_letter_exchange": "anywhere", "delivery_limit": 20,
    "single_active_consumer": True, "queue_mode": "lazy", "queue_version": 2,
    "queue_leader_locator": "balanced", "queue_master_locator": "min-masters",
    "dead_letter_strategy": "at-least-once", "group_by": "customer", "deduplication_window": 1000,
    "lease_period": 1, "max_unsettled": 1, "max_per_subscription_backlog": 1,
    "fairness": "fast",
    "redelivery_backoff": {"initial": 5},
    "semantics": "at-most-once", "max_in_memory_length": 5,
    "of-a-plugin": {"any": [None, 1.5]},
}  # fmt: skip
REFUSED: list[tuple[str, Any, str]] = [
    ("max_priority", 256, "{max_value_exceeded,256}"),
    ("message_ttl", -1, "{value_negative,-1}"),
    ("expires", 0, "{value_zero,0}"),
    ("max_length", "5", '"expected integer, got longstr"'),
    ("overflow", "spill", "invalid_overflow"),
    ("single_active_consumer", 1, "{unacceptable_type,"),
    ("queue_mode", "eager", "invalid_queue_mode"),
    ("queue_version", 3, "{unsupported_queue_version,3}"),
    ("queue_leader_locator", "nearest", "invalid_queue_locator_arg"),
    ("dead_letter_strategy", "lossy", "invalid_dlx_strategy"),
    ("delivery_limit", "none", '"expected integer, got longstr"'),
    ("lease_period", 0, "{value_zero,0}"),
    ("lease_period", -1, "{value_negative,-1}"),
    ("lease_period", "2", '"expected integer, got longstr"'),
    ("max_unsettled", 0, "{value_zero,0}"),
    ("max_unsettled", -1, "{value_negative,-1}"),
    ("max_unsettled", "2", '"expected integer, got longstr"'),
    ("fairness", "slow", "invalid_fairness"),
    ("fairness", 1, "{unacceptable_type,"),
    ("max_per_subscription_backlog", 0, "{value_zero,0}"),
    ("max_per_subscription_backlog", -1, "{value_negative,-1}"),
    ("max_per_subscription_backlog", "2", '"expected integer, got longstr"'),
]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_valid_argument_is_taken(client: Client, declared: Any, name: str) -> None:
    queue = declared(**{name: ACCEPTED[name]})
    assert client.depth(queue) == 0


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED)
def test_another_value_is_refused_in_the_words_of_rabbitmq(
    client: Client, declared: Any, name: str, value: object, reason: str
) -> None:
    with pytest.raises(ChannelClosedError) as refused:
        declared(**{name: value})
    assert refused.value.code == 406
    argument = "x-" + name.replace("_", "-")
    assert f"PRECONDITION_FAILED - invalid arg '{argument}' for queue" in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.requirement("A20.1", "A20.2", "A24.3", "A24.11")
@pytest.mark.parametrize("mode", [1, 2])
def test_each_of_the_levels_counts_and_the_lowest_is_dropped_first(
    client: Client, declared: Any, mode: int
) -> None:
    """With all 256 levels: a full queue drops the message of the lowest level, whenever it came."""
    queue = declared(max_priority=255, max_length=200)
    levels = [level * 7 % 256 for level in range(256)]
    for level in levels:
        client.publish(queue, str(level).encode(), priority=level, delivery_mode=mode)
    client.confirms(client.publish(queue, b"0", priority=0, delivery_mode=mode))
    assert client.bodies(queue) == [str(level).encode() for level in range(255, 55, -1)]


@pytest.mark.requirement("A24.3", "A24.5", "A24.6", "A24.7", "A24.8", "A24.9")
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
def test_a_full_queue_does_as_it_was_told(client: Client, declared: Any, overflow: str, mode: int) -> None:
    client.declare("grave")
    queue = declared(
        max_length=2, overflow=overflow, dead_letter_exchange="", dead_letter_routing_key="grave"
    )
    taken = client.confirms(client.publish(queue, b"a", b"b", b"c", delivery_mode=mode))
    assert taken == [True, True, overflow == "drop-head"]
    client.site.run(0.1)
    dropped = {"drop-head": [b"a"], "reject-publish": [], "reject-publish-dlx": [b"c"]}[overflow]
    assert client.bodies("grave") == dropped
    assert client.bodies(queue) == ([b"b", b"c"] if overflow == "drop-head" else [b"a", b"b"])

"""Counters with their rates, under the names that RabbitMQ gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from node.queue.delivery_state import Tally
from node.queue.dispatch import QueueOwner
from node.session.traffic import ExchangeFlow, Traffic

TALLY_NAMES: Final = (
    "publish",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "redeliver",
    "ack",
    "get_empty",
)
TRAFFIC_NAMES: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
FLOW_NAMES: Final = ("publish_in", "publish_out")
DEPTH_NAMES: Final = ("messages", "messages_ready", "messages_unacknowledged")

QUEUE_WIDTH: Final = len(TALLY_NAMES) + 2

_TAKEN: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
"""The counters that RabbitMQ adds up to `deliver_get`."""


def queue_counts(queue: QueueOwner) -> tuple[int, ...]:
    """The tally in the order of `TALLY_NAMES`, then the ready and the unacknowledged messages."""
    return (
        *tally_counts(queue.delivery.tally),
        queue.delivery.waiting_count,
        queue.delivery.leased_count,
    )


def tally_counts(tally: Tally) -> tuple[int, ...]:
    """In the order of `TALLY_NAMES`."""
    return (
        tally.published,
        tally.delivered,
        tally.delivered_no_ack,
        tally.got,
        tally.got_no_ack,
        tally.redelivered,
        tally.acknowledged,
        tally.got_empty,
    )


def traffic_counts(traffic: Traffic) -> tuple[int, ...]:
    """In the order of `TRAFFIC_NAMES`."""
    return traffic.published, traffic.confirmed, traffic.returned, traffic.dropped


def flow_counts(flow: ExchangeFlow) -> tuple[int, ...]:
    """In the order of `FLOW_NAMES`."""
    return flow.published, flow.routed


def added(columns: Iterable[Sequence[float]], width: int) -> list[float]:
    """The sums, place by place; zeros where there is nothing to add."""
    sums: list[float] = [0] * width
    for column in columns:
        for place, value in enumerate(column):
            sums[place] += value
    return sums


def with_rates(names: Sequence[str], counts: Sequence[float], rates: Sequence[float]) -> dict[str, Any]:
    """Each number, and beside it `*_details` with its rate by the second."""
    shown: dict[str, Any] = {}
    for name, count, rate in zip(names, counts, rates, strict=True):
        shown[name] = count
        shown[f"{name}_details"] = {"rate": round(rate, 3)}
    return shown


def message_stats(names: Sequence[str], counts: Sequence[float], rates: Sequence[float]) -> dict[str, Any]:
    """`with_rates`, and `deliver_get`: all messages that were delivered or got."""
    rates = [max(0.0, rate) for rate in rates]
    taken = [names.index(name) for name in _TAKEN if name in names]
    return with_rates(
        [*names, "deliver_get"],
        [*counts, sum(counts[place] for place in taken)],
        [*rates, sum(rates[place] for place in taken)],
    )

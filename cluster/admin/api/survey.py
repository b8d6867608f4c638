"""The answers of all nodes, put together. A node that does not answer is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cluster.admin.api import node_report
from cluster.admin.api.queue_rows import QueueFigures, QueueKey
from cluster.admin.api.rates import FLOW_NAMES, added
from cluster.admin.inquiry import Inquiry


@dataclass(frozen=True, slots=True)
class OwnedQueue:
    """A queue's state, and the node that owns it now."""

    node: str
    state: QueueFigures


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts with their rates, added up over all nodes."""

    counts: list[float]
    rates: list[float]


async def queue_states(
    inquiry: Inquiry, keys: Iterable[QueueKey] | None = None
) -> tuple[dict[QueueKey, OwnedQueue], set[str]]:
    """Each queue's state by virtual host and name, and the nodes that answered; of all queues, or some."""
    argument = None if keys is None else [list(key) for key in keys]
    told = await inquiry.ask_all(node_report.QUEUES, argument)
    states = {}
    for node, rows in told.items():
        for row in rows:
            state = QueueFigures(*row)
            states[state.vhost, state.name] = OwnedQueue(node, state)
    return states, set(told)


async def _client_rows(inquiry: Inquiry, question: str) -> list[dict[str, Any]]:
    told = await inquiry.ask_all(question)
    return [row for rows in told.values() for row in rows]


async def connections(inquiry: Inquiry) -> list[dict[str, Any]]:
    return await _client_rows(inquiry, node_report.CONNECTIONS)


async def channels(inquiry: Inquiry) -> list[dict[str, Any]]:
    return await _client_rows(inquiry, node_report.CHANNELS)


async def consumers(inquiry: Inquiry) -> list[dict[str, Any]]:
    return await _client_rows(inquiry, node_report.CONSUMERS)


async def sessions(inquiry: Inquiry, node: str, name: str) -> list[dict[str, Any]]:
    """The sessions of a connection to a node."""
    found: list[dict[str, Any]] = await inquiry.ask(node, node_report.SESSIONS, name)
    return found


async def nodes(inquiry: Inquiry) -> dict[str, dict[str, Any]]:
    """The report of each node that answered, by node."""
    return await inquiry.ask_all(node_report.NODE)


async def flows(inquiry: Inquiry) -> dict[tuple[str, str], Counted]:
    """The messages that came to exchanges, by virtual host and name, in the order of `FLOW_NAMES`."""
    found: dict[tuple[str, str], Counted] = {}
    for rows in (await inquiry.ask_all(node_report.FLOWS)).values():
        for vhost, exchange, counts, rates in rows:
            known = found.get((vhost, exchange), Counted([], []))
            found[vhost, exchange] = Counted(
                added([known.counts, counts], len(FLOW_NAMES)), added([known.rates, rates], len(FLOW_NAMES))
            )
    return found


async def partitions(inquiry: Inquiry) -> dict[int, dict[str, Any]]:
    """The rows of owned partitions, by id. Of two nodes that claim a partition the later term counts."""
    found: dict[int, dict[str, Any]] = {}
    for rows in (await inquiry.ask_all(node_report.PARTITIONS)).values():
        for row in rows:
            known = found.get(row["id"])
            if known is None or known["term"] < row["term"]:
                found[row["id"]] = row
    return found


async def close_connection(inquiry: Inquiry, node: str, name: str, reason: str) -> bool:
    """Close a connection by force; False when it is gone already."""
    closed = await inquiry.ask(node, node_report.CLOSE, {"name": name, "reason": reason})
    return bool(closed)

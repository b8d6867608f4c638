"""Reads the arguments of consumers. All functions raise PreconditionFailedError for a wrong value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from node.delivery.backlog import NO_BACKLOG
from node.delivery.link_terms import LinkTerms
from node.names import X_LEASE_LINGER
from node.refusal import PreconditionFailedError
from node.session.commands import X_MAX_BACKLOG
from node.session.ports import QueueRef
from node.type_names import type_name

LONGEST_LINGER_MS: Final = 7 * 24 * 3_600_000
"""A week: the longest time for which a queue keeps the messages of a consumer whose client is gone."""


def priority_of(queue: QueueRef, arguments: Mapping[str, Any]) -> int:
    """The priority that the consumer asks for."""
    return _integer(queue, arguments, "x-priority")


def flag_of(queue: QueueRef, arguments: Mapping[str, Any], argument: str) -> bool:
    """Whether the consumer asks for what this argument stands for."""
    asked = arguments.get(argument, False)
    if not isinstance(asked, bool):
        raise _misfit(queue, argument, _expected("boolean", asked))
    return asked


def backlog_asked(queue: QueueRef, arguments: Mapping[str, Any]) -> int:
    """The backlog that the consumer asks for, or NO_BACKLOG."""
    if X_MAX_BACKLOG not in arguments:
        return NO_BACKLOG
    backlog = _integer(queue, arguments, X_MAX_BACKLOG)
    if backlog < 0:
        raise _misfit(queue, X_MAX_BACKLOG, f"{{value_negative,{backlog}}}")
    return backlog


def lingering(queue: QueueRef, arguments: Mapping[str, Any], *, settled: bool) -> bytes:
    """The link without a name that a consumer has for itself (`node.delivery.link_terms`), for the time that
    its messages are kept when its client is gone; empty where they go back at once, as for a consumer whose
    deliveries are `settled` when they are made.
    """
    linger_ms = _integer(queue, arguments, X_LEASE_LINGER)
    if not 0 <= linger_ms <= LONGEST_LINGER_MS:
        raise _misfit(queue, X_LEASE_LINGER, f"{{value_out_of_range,{linger_ms}}}")
    return LinkTerms(b"", -(-linger_ms // 1000)).encode() if linger_ms and not settled else b""


def _integer(queue: QueueRef, arguments: Mapping[str, Any], argument: str) -> int:
    value = arguments.get(argument, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _misfit(queue, argument, _expected("integer", value))
    return int(value)


def _expected(kind: str, value: object) -> str:
    return f'"expected {kind}, got {type_name(value)}"'


def _misfit(queue: QueueRef, argument: str, reason: str) -> PreconditionFailedError:
    return PreconditionFailedError(f"invalid arg '{argument}' for {queue}: {reason}")

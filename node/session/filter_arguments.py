"""The argument `x-filter` of consumers and of queues (requirement D9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.refusal import PreconditionFailedError
from node.session.ports import QueueRef
from node.type_names import type_name

FILTER_ARGUMENT: Final = "x-filter"


def consumer_filter(queue: QueueRef, arguments: Mapping[str, Any], *, known: bool) -> bytes:
    """The condition in the arguments of a consumer; empty for none. `known`: every owner reads it.

    Raises PreconditionFailedError, with the column where the text is wrong.
    """
    if FILTER_ARGUMENT not in arguments:
        return b""
    text = arguments[FILTER_ARGUMENT]
    if not known:
        raise PreconditionFailedError(_not_known(str(queue)))
    try:
        if isinstance(text, str):
            return encoded_condition(text)
        reason = f'"expected text, got {type_name(text)}"'
    except ExpressionError as error:
        reason = str(error)
    raise PreconditionFailedError(f"invalid arg '{FILTER_ARGUMENT}' for {queue}: {reason}")


def check_queue_filter(name: str, vhost: str, arguments: Mapping[str, Any], *, known: bool) -> None:
    """Raises PreconditionFailedError where the arguments of a queue have a filter that some owner would not
    read.
    """
    if FILTER_ARGUMENT in arguments and not known:
        raise PreconditionFailedError(_not_known(f"queue '{name}' in vhost '{vhost}'"))


def _not_known(subject: str) -> str:
    return (
        f"invalid arg '{FILTER_ARGUMENT}' for {subject}: a node of the cluster runs a release without "
        f"{FILTER_ARGUMENT}; upgrade all nodes first"
    )

"""The argument `x-filter` of consumers, and the arguments of queues with expressions (D9, D10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.refusal import PreconditionFailedError
from node.session.ports import QueueRef
from node.type_names import type_name

FILTER_ARGUMENT: Final = "x-filter"

RANK_ARGUMENT: Final = "x-priority-expression"


def consumer_filter(queue: QueueRef, arguments: Mapping[str, Any], *, known: bool) -> bytes:
    """The condition in the arguments of a consumer; empty for none. `known`: every owner reads it.

    Raises PreconditionFailedError, with the column where the text is wrong.
    """
    if FILTER_ARGUMENT not in arguments:
        return b""
    text = arguments[FILTER_ARGUMENT]
    if not known:
        raise PreconditionFailedError(_not_known(FILTER_ARGUMENT, str(queue)))
    try:
        if isinstance(text, str):
            return encoded_condition(text)
        reason = f'"expected text, got {type_name(text)}"'
    except ExpressionError as error:
        reason = str(error)
    raise PreconditionFailedError(f"invalid arg '{FILTER_ARGUMENT}' for {queue}: {reason}")


def check_expressions_known(
    name: str, vhost: str, arguments: Mapping[str, Any], known: Mapping[str, bool]
) -> None:
    """Raises PreconditionFailedError where the arguments of a queue have an expression that some owner would
    not read. `known` has whether all owners read that of an argument, by the argument's name.
    """
    for argument in arguments.keys() & known.keys():
        if not known[argument]:
            raise PreconditionFailedError(_not_known(argument, f"queue '{name}' in vhost '{vhost}'"))


def _not_known(argument: str, subject: str) -> str:
    return (
        f"invalid arg '{argument}' for {subject}: a node of the cluster runs a release without "
        f"{argument}; upgrade all nodes first"
    )

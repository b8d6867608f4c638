"""The argument `x-filter` of consumers beside the read filters of users (D9), and arguments of queues that an
older release does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.expressions.nodes import TreeError, conjunction, decode_tree, encode_tree
from node.message.streams import (
    BESIDE_RECOVERY_POINT,
    STREAM_TYPE,
    X_DEFAULT_PUBLISH_TARGET,
    X_QUEUE_TYPE,
    X_RECOVERY_POINT,
)
from node.refusal import PreconditionFailedError
from node.session.ports import QueueRef
from node.type_names import type_name

FILTER_ARGUMENT: Final = "x-filter"

_CACHED: Final = 256
"""So many conditions of clients with read filters are remembered: each get asks for one."""


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


def entitled(queue: QueueRef, condition: bytes, read_filter: bytes) -> bytes:
    """The condition of messages that a client asks for, where its user may get those of `read_filter` alone.
    Either may be empty, for all messages. Raises PreconditionFailedError where both together are too large.
    """
    if not condition or not read_filter:
        return condition or read_filter
    try:
        return _both(condition, read_filter)
    except TreeError as error:
        reason = f"with the read filter of the user, {error}"
        raise PreconditionFailedError(f"invalid filter for {queue}: {reason}") from None


@lru_cache(_CACHED)
def _both(condition: bytes, read_filter: bytes) -> bytes:
    return encode_tree(conjunction([decode_tree(condition), decode_tree(read_filter)]))


def check_arguments_known(
    name: str,
    vhost: str,
    arguments: Mapping[str, Any],
    known: Callable[[str], bool],
    never_started: Sequence[str],
) -> None:
    """Raises PreconditionFailedError for an argument of a queue that some owner would not carry out: one that
    is not `known`. Of the nodes that have never started no node knows the release.
    """
    argument = unknown_argument(arguments, known)
    if argument is not None:
        raise PreconditionFailedError(
            _not_known(argument, f"queue '{name}' in vhost '{vhost}'", never_started)
        )


def unknown_argument(arguments: Mapping[str, Any], known: Callable[[str], bool]) -> str | None:
    """The first argument of a queue that is not `known`; None where all are."""
    stream = arguments.get(X_QUEUE_TYPE) == STREAM_TYPE
    named = [*arguments, *(f"{one}: {value}" for one, value in arguments.items() if isinstance(value, str))]
    named += [f"{one} of a stream" for one in arguments if stream]
    if X_RECOVERY_POINT in arguments:
        beside = (*BESIDE_RECOVERY_POINT, X_DEFAULT_PUBLISH_TARGET)
        named += [f"{X_RECOVERY_POINT} beside {one}" for one in beside if one in arguments]
    if "x-owners" in arguments and "x-barrier-expression" in arguments:
        named.append("x-barrier-expression beside x-owners")
    return next((argument for argument in named if not known(argument)), None)


def _not_known(argument: str, subject: str, never_started: Sequence[str] = ()) -> str:
    wrong = f"invalid arg '{argument}' for {subject}"
    if never_started:
        return f"{wrong}: try again when each node has started; {', '.join(never_started)}: never yet"
    return f"{wrong}: a node of the cluster runs a release without {argument}; upgrade all nodes first"

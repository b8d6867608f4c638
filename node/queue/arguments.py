"""Reads and checks the arguments of queue.declare.

RabbitMQ's names, types, limits and refusals (rabbit_amqqueue.erl, check_arguments_type_and_value),
but on every queue: no kind of queue lacks any of them. Arguments that are not listed here are taken
without a look, as RabbitMQ takes them for classic queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from node.queue.argument_types import (
    UnacceptableError,
    one_of,
    read_backoff,
    read_boolean,
    read_limit,
    read_natural,
    read_positive_time,
    read_priority,
    read_text,
    read_time,
    read_version,
)
from node.queue.operations import Semantics
from node.queue.settings import Overflow, QueueSettings
from node.refusal import PreconditionFailedError

SEMANTICS_NAMES: Final = {
    "at-least-once": Semantics.AT_LEAST_ONCE,
    "at-most-once": Semantics.AT_MOST_ONCE,
}
"""The values of the queue argument `x-semantics` (seed 002, queue semantics)."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A known argument: how its value is read, and the field of QueueSettings that it fills, if any."""

    read: Callable[[object], Any]
    field: str = ""


_OVERFLOWS: Final = {policy.value: policy for policy in Overflow}
_MODES: Final = {mode: mode for mode in ("default", "lazy")}
_STRATEGIES: Final = {strategy: strategy for strategy in ("at-most-once", "at-least-once")}
_LOCATORS: Final = {locator: locator for locator in ("client-local", "balanced", "random", "least-leaders")}

ARGUMENTS: Final[dict[str, Argument]] = {
    "x-semantics": Argument(one_of(SEMANTICS_NAMES, "invalid_semantics"), "semantics"),
    "x-max-priority": Argument(read_priority, "max_priority"),
    "x-message-ttl": Argument(read_time, "message_ttl_ms"),
    "x-expires": Argument(read_positive_time, "expires_ms"),
    "x-max-length": Argument(read_natural, "max_length"),
    "x-max-length-bytes": Argument(read_natural, "max_length_bytes"),
    "x-overflow": Argument(one_of(_OVERFLOWS, "invalid_overflow"), "overflow"),
    "x-dead-letter-exchange": Argument(read_text, "dead_letter_exchange"),
    "x-dead-letter-routing-key": Argument(read_text, "dead_letter_routing_key"),
    "x-delivery-limit": Argument(read_limit, "delivery_limit"),
    "x-single-active-consumer": Argument(read_boolean, "single_active_consumer"),
    "x-group-by": Argument(read_text, "group_by"),
    "x-deduplication-window": Argument(read_positive_time, "deduplication_window_ms"),
    "x-redelivery-backoff": Argument(read_backoff, "redelivery_backoff"),
    # Without an effect here: messages are in the journal, and no dead letter is lost on its way.
    "x-queue-mode": Argument(one_of(_MODES, "invalid_queue_mode")),
    "x-queue-version": Argument(read_version),
    "x-dead-letter-strategy": Argument(one_of(_STRATEGIES, "invalid_dlx_strategy")),
    # What becomes of these is decided when the queue is placed.
    "x-queue-leader-locator": Argument(one_of(_LOCATORS, "invalid_queue_locator_arg")),
    "x-queue-master-locator": Argument(read_text),
}


def check_arguments(arguments: Mapping[str, Any], queue: str, vhost: str) -> QueueSettings:
    """The settings in the arguments of a queue.declare.

    Raises PreconditionFailedError, in RabbitMQ's words, for a value of the wrong type or out of range.
    """
    for name, value in arguments.items():
        known = ARGUMENTS.get(name)
        try:
            if known is not None:
                known.read(value)
            if name == "x-dead-letter-routing-key" and "x-dead-letter-exchange" not in arguments:
                raise UnacceptableError("routing_key_but_no_dlx_defined")
        except UnacceptableError as reason:
            raise PreconditionFailedError(
                f"invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': {reason}"
            ) from None
    return read_arguments(arguments)


def read_arguments(arguments: Mapping[str, Any]) -> QueueSettings:
    """The settings of a queue that was declared with these arguments.

    What an earlier release let pass unchecked, and no value is, counts as not given.
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        known = ARGUMENTS.get(name)
        if known is not None and known.field:
            try:
                found[known.field] = known.read(value)
            except UnacceptableError:
                continue
    return QueueSettings(**found)

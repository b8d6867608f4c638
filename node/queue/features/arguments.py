"""Reads and checks the arguments of queue.declare.

Names, types, limits and refusals are RabbitMQ's (rabbit_amqqueue.erl, check_arguments_type_and_value). Every
kind of queue has all arguments. Arguments that are not listed here are accepted and ignored, as RabbitMQ does
for classic queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import UnacceptableError, one_of, read_natural, read_text
from node.queue.features.registry import ARGUMENTS as OF_FEATURES
from node.queue.operations import Semantics
from node.queue.placement_arguments import PLACEMENT_ARGUMENTS
from node.queue.settings import QueueSettings
from node.queue.stream_settings import ARGUMENTS_OF_STREAMS, MAX_AGE_ARGUMENT, is_stream
from node.refusal import PreconditionFailedError

SEMANTICS_NAMES: Final = {
    "at-least-once": Semantics.AT_LEAST_ONCE,
    "at-most-once": Semantics.AT_MOST_ONCE,
}
"""The values of the queue argument `x-semantics` (seed 002, queue semantics)."""

_MODES: Final = {mode: mode for mode in ("default", "lazy")}
_LOCATORS: Final = {locator: locator for locator in ("client-local", "balanced", "random", "least-leaders")}


def read_version(value: object) -> int:
    """Raises UnacceptableError for anything but 1 and 2."""
    number = read_natural(value)
    if number not in (1, 2):
        raise UnacceptableError(f"{{unsupported_queue_version,{number}}}")
    return number


_OF_ALL: Final[tuple[Argument[Any], ...]] = (
    Argument(
        "x-semantics",
        one_of(SEMANTICS_NAMES, "invalid_semantics"),
        "semantics",
        default=Semantics.AT_LEAST_ONCE,
    ),
    # Without an effect: all messages are in the journal.
    Argument("x-queue-mode", one_of(_MODES, "invalid_queue_mode"), policy=PolicyUse.USER),
    Argument("x-queue-version", read_version, policy=PolicyUse.USER),
    # The front end uses these when it places the queue.
    Argument("x-queue-leader-locator", one_of(_LOCATORS, "invalid_queue_locator_arg"), policy=PolicyUse.USER),
    Argument("x-queue-master-locator", read_text, policy=PolicyUse.USER),
    *PLACEMENT_ARGUMENTS,
)

BY_NAME: Final[dict[str, Argument[Any]]] = {one.name: one for one in (*_OF_ALL, *OF_FEATURES)}


def read_queue_arguments(arguments: Mapping[str, Any], queue: str, vhost: str) -> QueueSettings:
    """The settings in the arguments of a queue.declare.

    Raises PreconditionFailedError, in RabbitMQ's words, for a value of the wrong type or out of range.
    """
    for name, value in arguments.items():
        known = BY_NAME.get(name)
        try:
            if known is not None:
                asked = known.read(value)
                if known.needs is not None and known.needs[0] not in arguments:
                    raise UnacceptableError(known.needs[1])
                if known.misfit is not None and (reason := known.misfit(asked, arguments)):
                    raise UnacceptableError(reason)
        except UnacceptableError as error:
            raise PreconditionFailedError(
                f"invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': {error}"
            ) from None
    settings = read_arguments(arguments)
    _check_type(arguments, queue, vhost, stream=is_stream(settings))
    return settings


def _check_type(arguments: Mapping[str, Any], queue: str, vhost: str, *, stream: bool) -> None:
    """Raises PreconditionFailedError for an argument that queues of this type do not have."""
    for name in arguments:
        unfit = name in BY_NAME and name not in ARGUMENTS_OF_STREAMS if stream else name == MAX_AGE_ARGUMENT
        if unfit:
            kind = "stream" if stream else "another type than stream"
            raise PreconditionFailedError(
                f"invalid arg '{name}' for queue '{queue}' in vhost '{vhost}' of queue type {kind}"
            )


def read_arguments(arguments: Mapping[str, Any]) -> QueueSettings:
    """The settings of a queue that was declared with these arguments.

    An earlier release may have accepted values unchecked: a value that this release refuses counts as absent.
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        known = BY_NAME.get(name)
        if known is not None and known.field:
            try:
                asked = known.read(value)
            except UnacceptableError:
                continue
            if asked is not None and asked != known.default:
                found[known.field] = asked
    return QueueSettings(**found)

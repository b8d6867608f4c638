"""The keys that policies may define, and the settings of a queue from its arguments and policies together.
Pure.

The names are those of queue arguments without `x-` (RabbitMQ's rabbit_policies.erl), for queues; and
`alternate-exchange` for exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.catalog.access.patterns import mistake_in
from node.queue.argument import PolicyUse
from node.queue.argument_types import UnacceptableError, read_natural, read_text
from node.queue.features.arguments import BY_NAME
from node.queue.stream_settings import ARGUMENTS_OF_STREAMS, EXPIRATION_ARGUMENT

ALTERNATE_EXCHANGE: Final = "alternate-exchange"

_ARGUMENT: Final = "x-"

_BY_KEY: Final = {
    name.removeprefix(_ARGUMENT): argument
    for name, argument in BY_NAME.items()
    if argument.policy is not PolicyUse.NONE
}
"""The queue arguments that policies may set, by the keys of policies."""

LOWER_COUNTS: Final = frozenset(key for key, one in _BY_KEY.items() if one.policy is PolicyUse.LIMIT)
"""Keys of limits: where a queue and its policies, or two policies, set one, the lower value counts."""

KEYS_OF_STREAMS: Final = frozenset(
    key for key in _BY_KEY if _ARGUMENT + key in ARGUMENTS_OF_STREAMS - {EXPIRATION_ARGUMENT}
)
"""The keys that have an effect on streams. As on RabbitMQ, a policy with a time to live has none."""

_OPERATOR_KEYS: Final = frozenset(
    {
        *LOWER_COUNTS,
        *(key for key, one in _BY_KEY.items() if one.policy is PolicyUse.OPERATOR),
        "max-in-memory-length",
        "max-in-memory-bytes",
        "target-group-size",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
    }
)


def _anything(value: object) -> object:
    return value


_WITHOUT_EFFECT: Final[dict[str, Callable[[object], Any]]] = {
    "consumer-timeout": read_natural,
    "max-in-memory-length": read_natural,
    "max-in-memory-bytes": read_natural,
    "initial-cluster-size": read_natural,
    "target-group-size": read_natural,
    "ha-mode": read_text,
    "ha-params": _anything,
    "ha-sync-mode": read_text,
    "ha-sync-batch-size": read_natural,
    "ha-promote-on-shutdown": read_text,
    "ha-promote-on-failure": read_text,
}
"""Keys of RabbitMQ's policies that have no effect here, and how their values are checked. The `ha-` keys are
those of mirrored queues: in quorate the queue's type decides about replicas."""

APPLY_TO: Final = ("queues", "exchanges", "all", "classic_queues", "quorum_queues", "streams")


def mistake_in_policy(
    pattern: str, apply_to: str, definition: Mapping[str, Any], *, operator: bool
) -> str | None:
    """The defect of a policy, in words like RabbitMQ's; None for a policy that may be set."""
    wrong = mistake_in(pattern)
    if wrong is not None:
        return f"{wrong}\n"
    if apply_to not in APPLY_TO:
        return f'apply-to "{apply_to}" should be one of {", ".join(APPLY_TO)}\n'
    if operator and apply_to in ("exchanges", "all"):
        return f'apply-to "{apply_to}" is not for operator policies, which are for queues\n'
    if not definition:
        return "a policy must define something\n"
    for key, value in definition.items():
        read = _reader(key, operator=operator)
        if read is None:
            return f"{key} is not a recognised {'operator ' if operator else ''}policy setting\n"
        try:
            read(value)
        except UnacceptableError as reason:
            return f"{value!r} is not a valid value of {key}: {reason}\n"
    return None


def mistake_in_update(arguments: Mapping[str, Any]) -> str | None:
    """The defect of arguments that a queue which is there is to have; None where it may have them. None for a
    value takes the argument away.
    """
    for name, value in arguments.items():
        argument = _BY_KEY.get(name.removeprefix(_ARGUMENT))
        if argument is None:
            return f"{name} is none of the arguments that policies may set, and stays as it was declared"
        try:
            if value is not None:
                argument.read(value)
        except UnacceptableError as reason:
            return f"{value!r} is not a valid value of {name}: {reason}"
    return None


def _reader(key: str, *, operator: bool) -> Callable[[object], Any] | None:
    """The function that checks the value of a key; None for a key that policies do not have."""
    if operator and key not in _OPERATOR_KEYS:
        return None
    if key == ALTERNATE_EXCHANGE:
        return read_text
    return _BY_KEY[key].read if key in _BY_KEY else _WITHOUT_EFFECT.get(key)


def joined_definition(user: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions of a policy and an operator policy together. The operator's value counts; of a limit
    the lower one.
    """
    found = dict(user)
    for key, value in operator.items():
        found[key] = _lower(key, found[key], value) if key in LOWER_COUNTS and key in found else value
    return found


def arguments_with(arguments: Mapping[str, Any], definition: Mapping[str, Any]) -> dict[str, Any]:
    """A queue's arguments with those of its policies added. The queue's own value counts; of a limit the
    lower one.
    """
    found = dict(arguments)
    for key in _BY_KEY.keys() & definition.keys():
        name, value = _ARGUMENT + key, definition[key]
        if name not in found:
            found[name] = value
        elif key in LOWER_COUNTS:
            found[name] = _lower(key, found[name], value)
    return found


def arguments_over(topic: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A queue's arguments with the expiration of the stream under it, by that stream's arguments. The lower
    one counts.
    """
    lives = topic.get(EXPIRATION_ARGUMENT)
    definition = {} if lives is None else {EXPIRATION_ARGUMENT.removeprefix(_ARGUMENT): lives}
    return arguments_with(arguments, definition)


def _lower(key: str, one: Any, other: Any) -> Any:
    """The lower of two values. Old journals may have any value here: one that is not valid does not count."""
    read = _BY_KEY[key].read
    values = []
    for value in (one, other):
        try:
            number = read(value)
        except UnacceptableError:
            continue
        if number is not None:
            values.append(value)
    return min(values, default=one)

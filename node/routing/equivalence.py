"""Compares a declaration with the exchange or queue that exists already (0-9-1, exchange.declare,
queue.declare).

The texts of refusals are RabbitMQ's: clients and people read from them which argument differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from node.refusal import PreconditionFailedError
from node.routing.matching import normal_value
from node.type_names import type_name


def check_property(subject: str, name: str, received: bool | str, current: bool | str) -> None:
    """Compare a property of the declaration with the existing one. `subject` names the object in the text.

    Raises PreconditionFailedError where they differ.
    """
    if received != current:
        raise _inequivalent(subject, name, f"'{_value_text(received)}'", f"'{_value_text(current)}'")


def check_equivalent_arguments(
    subject: str, received: Mapping[str, Any], current: Mapping[str, Any], names: Iterable[str]
) -> None:
    """Compare the arguments `names` of a declaration with the existing ones. Numbers are equal whatever their
    width on the wire. `subject` names the object in the text.

    Raises PreconditionFailedError for the first argument that differs.
    """
    for name in names:
        if name in received and name in current:
            if normal_value(received[name]) != normal_value(current[name]):
                texts = [f"'{_value_text(table[name])}'" for table in (received, current)]
                raise _inequivalent(subject, name, *texts)
        elif name in received or name in current:
            raise _inequivalent(subject, name, *(_with_type(table, name) for table in (received, current)))


def _inequivalent(subject: str, name: str, received: str, current: str) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"inequivalent arg '{name}' for {subject}: received {received} but current is {current}"
    )


def _with_type(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        return "none"
    return f"the value '{_value_text(table[name])}' of type '{type_name(table[name])}'"


def _value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Whether a declaration describes what exists already (0-9-1, exchange.declare and queue.declare).

The texts are RabbitMQ's: clients and people take from them which argument differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from node.refusal import PreconditionFailedError
from node.routing.matching import normal_value
from node.type_names import type_name


def check_property(what: str, name: str, received: bool | str, current: bool | str) -> None:
    """A property of what is declared. Raises PreconditionFailedError when it is another than it was."""
    if received != current:
        raise _inequivalent(what, name, f"'{_value_text(received)}'", f"'{_value_text(current)}'")


def check_equivalent_arguments(
    what: str, received: Mapping[str, Any], current: Mapping[str, Any], names: Iterable[str]
) -> None:
    """The arguments called `names`. Numbers are equal whatever the width that they came in.

    Raises PreconditionFailedError for the first that differs.
    """
    for name in names:
        if name in received and name in current:
            if normal_value(received[name]) != normal_value(current[name]):
                texts = [f"'{_value_text(table[name])}'" for table in (received, current)]
                raise _inequivalent(what, name, *texts)
        elif name in received or name in current:
            raise _inequivalent(what, name, *(_with_type(table, name) for table in (received, current)))


def _inequivalent(what: str, name: str, received: str, current: str) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"inequivalent arg '{name}' for {what}: received {received} but current is {current}"
    )


def _with_type(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        return "none"
    return f"the value '{_value_text(table[name])}' of type '{type_name(table[name])}'"


def _value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

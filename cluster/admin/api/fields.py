"""The fields of a JSON body, each read as the type that it must have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from cluster.admin.api.errors import bad_request

LARGEST_INTEGER: Final = 2**63
"""Field tables of AMQP hold integers of 64 bits."""

MAX_ARGUMENT_DEPTH: Final = 32
"""Tables and lists within each other in an argument."""


class Fields:
    """A JSON object that a client sent. A field of another type than asked for raises ApiError (400)."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    @classmethod
    def parse(cls, body: bytes, error: str = "not_json") -> Fields:
        """An empty body is an empty object. Raises ApiError with `error` as its reason."""
        if not body.strip():
            return cls({})
        try:
            value = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise bad_request(error) from None
        if isinstance(value, str):
            raise bad_request(
                "invalid payload: the request body JSON-decoded to a string. "
                "Is the input doubly-JSON-encoded?"
            )
        if not isinstance(value, dict):
            raise bad_request(error)
        return cls(value)

    def require(self, *names: str) -> None:
        """Raises ApiError that names all that are missing, as RabbitMQ writes it."""
        missing = [f"{{key_missing,{name}}}" for name in names if name not in self.values]
        if missing:
            raise bad_request(f"[{','.join(missing)}]")

    def text(self, name: str, default: str = "") -> str:
        """Numbers are taken as they are written, as in RabbitMQ."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise bad_request(f"{name}_not_string")
        text = str(value)
        if not is_text(text):
            raise bad_request(f"{name}_not_text")
        return text

    def flag(self, name: str, default: bool = False) -> bool:
        """Also "true" and "false" as text: rabbitmqadmin sends them."""
        value = self.values.get(name, default)
        if value is True or value == "true":
            return True
        if value is False or value == "false":
            return False
        raise bad_request(["not_boolean", value])

    def integer(self, name: str, default: int | None = None) -> int:
        """Also as text: rabbitmqadmin sends that."""
        value = self.values.get(name, default)
        try:
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise ValueError
            return int(value)
        except ValueError:
            raise bad_request(["not_integer", value]) from None

    def table(self, name: str) -> dict[str, Any]:
        """Values that a field table of AMQP can hold. An empty list is taken for an empty table."""
        value = self.values.get(name, {})
        if value == []:
            return {}
        if not isinstance(value, dict):
            raise bad_request(f"{name}_not_object")
        check_value(value)
        return value

    def objects(self, name: str) -> list[Fields]:
        """A list of objects; empty when it is missing."""
        value = self.values.get(name) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise bad_request(f"{name}_not_a_list_of_objects")
        return [Fields(one) for one in value]


def check_value(value: Any, depth: int = MAX_ARGUMENT_DEPTH) -> None:
    """Raises ApiError for a value that a field table of AMQP cannot hold."""
    if not depth:
        raise bad_request("tables are nested too deep")
    if value is None:
        raise bad_request("null_not_allowed")
    if isinstance(value, int) and not -LARGEST_INTEGER <= value < LARGEST_INTEGER:
        raise bad_request("an integer has more than 64 bits")
    if isinstance(value, str) and not is_text(value):
        raise bad_request("a string holds half of a surrogate pair")
    if isinstance(value, dict):
        for name in value:
            if not is_text(name) or not 0 < len(name.encode()) <= 255:
                raise bad_request("a field name has 1 to 255 octets")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_value(one, depth - 1)


def is_text(value: str) -> bool:
    """JSON can write halves of surrogate pairs; no octets stand for them."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")

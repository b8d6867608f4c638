"""Configuration by environment variables: `QUORATE_` and a key's path, its parts joined by two underscores.

`QUORATE_NODE__NAME=n2`, `QUORATE_NODE__LISTEN__AMQP=0.0.0.0:5672`, `QUORATE_CLUSTER__LIMITS__CHANNELS=50`.
Names that an operator chooses (of nodes and users) keep their case:
`QUORATE_CLUSTER__NODES__n1__AMQP`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

from cluster.config.tables import ConfigError

PREFIXES: Final = ("QUORATE_NODE__", "QUORATE_CLUSTER__")
"""Other variables that begin with QUORATE_ are ignored: Kubernetes sets some for a service called quorate."""


def overlay(tables: dict[str, Any], environment: Mapping[str, str], model: type[BaseModel]) -> dict[str, str]:
    """Put the environment's values into `tables`, over those of a file. Returns the variables by key path.

    The fields of the configuration's `model` tell which values are text. Raises `ConfigError` where a
    variable names a key below a value.
    """
    used: dict[str, str] = {}
    for name in sorted(name for name in environment if name.startswith(PREFIXES)):
        parts = name.removeprefix("QUORATE_").split("__")
        path, is_text = _resolve(parts, model)
        table = tables
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{name}: {'.'.join(path)}: {part} is a value, not a table")
        table[path[-1]] = environment[name] if is_text else _plain(environment[name])
        used[".".join(path)] = name
    return used


def _resolve(parts: list[str], model: type[BaseModel]) -> tuple[list[str], bool]:
    """A key's path as it is in a file, and whether its value is text.

    An unknown part stays as it is written: validation reports it with the path.
    """
    table = parts[0].lower()
    annotation: Any = model if table == "node" else model.model_fields["cluster"].annotation
    path = [table]
    for part in parts[1:]:
        fields = _fields(annotation)
        if fields is not None:
            path.append(part.lower())
            annotation = fields[part.lower()].annotation if part.lower() in fields else None
        else:
            path.append(part)
            arguments = get_args(_bare(annotation))
            annotation = arguments[1] if get_origin(_bare(annotation)) is dict else None
    return path, _is_text(annotation)


def _fields(annotation: Any) -> Mapping[str, Any] | None:
    bare = _bare(annotation)
    return bare.model_fields if isinstance(bare, type) and issubclass(bare, BaseModel) else None


def _bare(annotation: Any) -> Any:
    """The annotation without `Annotated` and `| None`."""
    while get_origin(annotation) in (Annotated, Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _is_text(annotation: Any) -> bool:
    bare = _bare(annotation)
    return bare not in (int, float, bool) and get_origin(bare) not in (tuple, dict)


def _plain(text: str) -> Any:
    """The number, truth value or list that `text` means in TOML; other text as it is, for validation."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text

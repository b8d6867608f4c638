"""Reads the commands of a batch. Each is a map:

command    create, create or assert, assert, update, delete, query, rename
queue      the name of the queue; a query may be without
with       a map: durable, auto_delete, exclusive, and arguments by their names
to         the new name of a queue that is renamed
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from node.message.json_body import json_document
from node.message.requests import RequestMessage
from node.session.batch_port import (
    AssertQueue,
    BatchCommand,
    MakeQueue,
    QueryQueues,
    RemoveQueue,
    RenameQueue,
    UpdateQueue,
)
from node.session.batch_text import BatchTextError, entries_in_text
from node.session.statuses import NOT_IMPLEMENTED
from node.wire.naming import NamingError, check_field_values, check_text

BAD: Final = 400

MOST_COMMANDS: Final = 256
"""Commands in a batch."""

_PROPERTIES: Final = ("durable", "auto_delete", "exclusive")
_FIELDS: Final = frozenset({"command", "queue", "link", "to", "with"})

_BEGINS_JSON: Final = (b"[", b"{")


class BatchError(Exception):
    """The batch is refused with a status of the answer. `index` is the command that is wrong, counted from 0;
    None where it is the batch.
    """

    def __init__(self, status: int, text: str, index: int | None = None) -> None:
        super().__init__(text)
        self.status: Final = status
        self.index: Final = index


_SHOWN: Final = 64
"""Characters of a text that a refusal repeats."""


def _shown(value: object) -> str:
    """The value for a refusal. A map or a list is named alone: its text may be long, and nested deep."""
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else "a list"
    return repr(value) if len(repr(value)) <= _SHOWN else f"{repr(value)[:_SHOWN]}…"


def entries_of(request: RequestMessage) -> object:
    """The commands in a request, as maps. Octets are JSON, an object or an array of objects, or the text of
    `node.session.batch_text`. Raises BatchError.
    """
    if request.mistake:
        raise BatchError(BAD, request.mistake)
    if request.typed:
        return request.content
    octets: bytes = request.content
    if octets.lstrip().startswith(_BEGINS_JSON):
        found = json_document(octets)
        if found is None:
            raise BatchError(BAD, "the body is no JSON")
        return found
    try:
        return entries_in_text(octets.decode())
    except UnicodeDecodeError:
        raise BatchError(BAD, "the body is no UTF-8") from None
    except BatchTextError as error:
        raise BatchError(BAD, str(error)) from None


def read_batch(entries: object) -> list[BatchCommand]:
    """The commands of a batch. Raises BatchError."""
    if not isinstance(entries, list):
        entries = [entries]
    if not entries:
        raise BatchError(BAD, "the batch has no command")
    if len(entries) > MOST_COMMANDS:
        raise BatchError(BAD, f"the batch has {len(entries)} commands, and the most are {MOST_COMMANDS}")
    found: list[BatchCommand] = []
    for index, entry in enumerate(entries):
        try:
            found.append(_read_command(entry))
        except BatchError as error:
            raise BatchError(error.status, str(error), index) from None
    return found


def _read_command(entry: object) -> BatchCommand:
    if not isinstance(entry, dict):
        raise BatchError(BAD, "a command is a map")
    for name in entry:
        if name not in _FIELDS:
            raise BatchError(BAD, f"{_shown(name)} is none of the fields {', '.join(sorted(_FIELDS))}")
    verb = entry.get("command")
    if "link" in entry:
        raise BatchError(NOT_IMPLEMENTED, "there are no commands for links")
    if verb == "rename":
        return _rename(entry)
    read = _READERS.get(verb) if isinstance(verb, str) else None
    if read is None:
        raise BatchError(BAD, f"command {_shown(verb)} is none of {', '.join(sorted(_READERS))}, rename")
    if "to" in entry:
        raise BatchError(BAD, f"'{verb}' has no field 'to'")
    name = entry.get("queue", "" if verb == "query" else None)
    if not isinstance(name, str) or (not name and verb != "query"):
        raise BatchError(BAD, f"'{verb}' has the name of a queue in its field 'queue'")
    properties, arguments = _options(entry.get("with"))
    _check_names(name, arguments)
    return read(name, properties, arguments)


def _rename(entry: dict[object, object]) -> RenameQueue:
    name, to = entry.get("queue"), entry.get("to")
    if not isinstance(name, str) or not isinstance(to, str) or not name or not to:
        raise BatchError(BAD, "'rename' has a queue in its field 'queue', and the new name in 'to'")
    if "with" in entry:
        raise BatchError(BAD, "'rename' has no field 'with'")
    _check_names(name, {})
    _check_names(to, {})
    return RenameQueue(name, to)


def _options(options: object) -> tuple[dict[str, bool], dict[str, Any]]:
    if options is None:
        return {}, {}
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise BatchError(BAD, "the field 'with' is a map with texts as keys")
    properties = dict[str, bool]()
    for name in _PROPERTIES:
        value = options.get(name, False)
        if not isinstance(value, bool):
            raise BatchError(BAD, f"{name} is true or false, and not {_shown(value)}")
        if name in options:
            properties[name] = value
    arguments = {str(name): value for name, value in options.items() if name not in _PROPERTIES}
    for name in arguments:
        if not name.startswith("x-"):
            raise BatchError(BAD, f"{_shown(name)} is none of {', '.join(_PROPERTIES)}, and no argument x-")
    return properties, arguments


def _check_names(name: str, arguments: dict[str, Any]) -> None:
    try:
        check_text(name)
        for argument in arguments:
            check_text(argument)
        check_field_values(arguments)
    except NamingError as error:
        raise BatchError(BAD, str(error)) from None


def _create(name: str, properties: dict[str, bool], arguments: dict[str, Any], may_exist: bool) -> MakeQueue:
    if properties.get("exclusive"):
        raise BatchError(NOT_IMPLEMENTED, "a batch creates no exclusive queue")
    durable, auto_delete = properties.get("durable", True), properties.get("auto_delete", False)
    return MakeQueue(name, durable, auto_delete, arguments, may_exist)


def _create_new(name: str, properties: dict[str, bool], arguments: dict[str, Any]) -> BatchCommand:
    return _create(name, properties, arguments, may_exist=False)


def _create_or_assert(name: str, properties: dict[str, bool], arguments: dict[str, Any]) -> BatchCommand:
    return _create(name, properties, arguments, may_exist=True)


def _assert(name: str, properties: dict[str, bool], arguments: dict[str, Any]) -> BatchCommand:
    return AssertQueue(name, properties, arguments)


def _update(name: str, properties: dict[str, bool], arguments: dict[str, Any]) -> BatchCommand:
    if properties or not arguments:
        raise BatchError(BAD, "'update' has arguments in its field 'with', and no properties")
    return UpdateQueue(name, arguments)


def _delete(name: str, properties: dict[str, bool], arguments: dict[str, Any]) -> BatchCommand:
    if properties or arguments:
        raise BatchError(BAD, "'delete' has no field 'with'")
    return RemoveQueue(name)


def _query(name: str, properties: dict[str, bool], arguments: dict[str, Any]) -> BatchCommand:
    return QueryQueues(name, properties, arguments)


_READERS: Final[dict[str, Callable[[str, dict[str, bool], dict[str, Any]], BatchCommand]]] = {
    "assert": _assert,
    "create": _create_new,
    "create or assert": _create_or_assert,
    "delete": _delete,
    "query": _query,
    "update": _update,
}

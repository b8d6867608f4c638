"""The commands of a batch as text (seed 000, §6.3.1), one a line:

    create [or assert] queue NAME [with OPTIONS]
    assert queue NAME [with OPTIONS]
    update queue NAME with OPTIONS
    rename queue NAME NEW-NAME
    delete queue NAME
    query queue [NAME] [with OPTIONS]

OPTIONS are NAME=VALUE, with commas or blanks between them. A VALUE is JSON without blanks, or a text. Texts
with other characters stand between quotation marks, as in JSON. `link` may stand for `queue`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_TOKEN: Final = re.compile(r'[ \t]*(?:("(?:[^"\\]|\\.)*")|([^\s,="]+)|([,=]))')

ENTITIES: Final = ("queue", "link")
_NAMES: Final[dict[tuple[str, str], int]] = {
    ("rename", "queue"): 2,
    ("rename", "link"): 2,
    ("create", "link"): 3,
    ("create or assert", "link"): 3,
}
"""The names behind the entity, where a command has not one."""


class BatchTextError(ValueError):
    """A line is no command. The text says which line, and what is wrong."""


def entries_in_text(text: str) -> list[dict[str, Any]]:
    """The commands as maps (`node.session.batch_reading`). Raises BatchTextError."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_entry(_tokens(line)))
            except BatchTextError as error:
                raise BatchTextError(f"line {number}: {error}") from None
    return found


Token = tuple[str, bool]
"""A word, and whether it stands between quotation marks. Marks `,` and `=` are words, too."""


def _tokens(line: str) -> list[Token]:
    found: list[Token] = []
    at, line = 0, line.rstrip()
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:
            raise BatchTextError(f"column {at + 1}: a quotation mark without an end, or another blank")
        quoted, word, mark = match.groups()
        found.append((_unquoted(quoted), True) if quoted is not None else (word or mark, False))
        at = match.end()
    return found


def _unquoted(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise BatchTextError(f"{quoted} is no text as JSON writes it") from None


def _entry(tokens: list[Token]) -> dict[str, Any]:
    words = [word for word, quoted in tokens]
    verb, at = words[0], 1
    if words[:3] == ["create", "or", "assert"]:
        verb, at = "create or assert", 3
    entity = words[at] if at < len(words) else ""
    if entity not in ENTITIES:
        raise BatchTextError(f"behind '{verb}' stands 'queue' or 'link', and not '{entity}'")
    end = next((i for i in range(at + 1, len(tokens)) if tokens[i] == ("with", False)), len(tokens))
    names = words[at + 1 : end]
    if len(names) > _NAMES.get((verb, entity), 1):
        raise BatchTextError(f"'{names[-1]}' is one name too many for '{verb} {entity}'")
    entry: dict[str, Any] = {"command": verb}
    if names or entity == "link":
        entry[entity] = names[0] if names else ""
    if len(names) == 2:
        entry["to"] = names[1]
    if end < len(tokens):
        entry["with"] = _options(tokens[end + 1 :])
    return entry


def _options(tokens: list[Token]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = 0
    while at < len(tokens):
        name, equals, value = (*tokens[at : at + 3], None, None, None)[:3]
        if name is None or equals != ("=", False) or value is None or value[0] in (",", "="):
            raise BatchTextError(f"behind 'with' stand options NAME=VALUE, and not '{tokens[at][0]}'")
        if name[0] in found:
            raise BatchTextError(f"the option '{name[0]}' stands twice")
        found[name[0]] = value[0] if value[1] else _value(value[0])
        at += 3
        if at < len(tokens) and tokens[at] == (",", False):
            at += 1
    return found


def _value(word: str) -> Any:
    """A JSON value, or the text itself."""
    if word in ("NaN", "Infinity", "-Infinity"):
        return word
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word

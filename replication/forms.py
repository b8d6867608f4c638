"""Holds a peer's message against the form that it must have, before anything is done about it.

A form is a type (`object`: anything), a union of types, a list of one form (any number of it), a tuple of
forms (exactly these, in a list), or a dictionary of one form to another (any number of such pairs).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import UnionType
from typing import Any

from replication.raft.errors import MessageError

RAFT_TAG = b"R"
SNAPSHOT_TAG = b"S"

ENVELOPE = struct.Struct(">cI")
"""Tag and partition: the first part of each message about one partition."""


def addressed(parts: Sequence[bytes]) -> tuple[bytes, int]:
    """Tag and partition of a message. Raises MessageError."""
    if not parts or len(parts[0]) != ENVELOPE.size:
        raise MessageError(f"the envelope of a message has not {ENVELOPE.size} octets")
    tag, partition = ENVELOPE.unpack(parts[0])
    return tag, partition


def expect(value: Any, form: Any) -> None:
    """Raises MessageError where the value has another form. Whole numbers will do for `float`."""
    if form is object:
        return
    if isinstance(form, type):
        if type(value) is not form and not (form is float and type(value) is int):
            raise MessageError(f"{form.__name__} is wanted, not {type(value).__name__}")
        return
    if isinstance(form, UnionType):
        if type(value) not in form.__args__:
            raise MessageError(f"{form} is wanted, not {type(value).__name__}")
        return
    if isinstance(form, dict):
        _expect_pairs(value, form)
        return
    if not isinstance(value, list | tuple):
        raise MessageError(f"a list is wanted, not {type(value).__name__}")
    if isinstance(form, list):
        for one in value:
            expect(one, form[0])
        return
    if len(value) != len(form):
        raise MessageError(f"{len(form)} values are wanted, not {len(value)}")
    for one, wanted in zip(value, form, strict=True):
        expect(one, wanted)


def _expect_pairs(value: Any, form: dict[Any, Any]) -> None:
    if not isinstance(value, dict):
        raise MessageError(f"a dictionary is wanted, not {type(value).__name__}")
    ((wanted_key, wanted),) = form.items()
    for key, one in value.items():
        expect(key, wanted_key)
        expect(one, wanted)

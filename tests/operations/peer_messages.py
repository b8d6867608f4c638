"""Messages between nodes, made of what the registry says of each; types are named here where they do not tell
all that a message has to be.
"""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgpack
from hypothesis import strategies as st

from cluster.peers.held_leases import TellsLeases
from cluster.peers.link_messages import RemoteFrontEnd, RemoteOwner, receive_for_front_end, receive_for_owner
from cluster.peers.registry import FAMILIES, MessageFamily, MessageKind
from cluster.peers.tags import TO_FRONT_END, TO_OWNER
from node.message.run import OWN_METHODS, Run
from node.wire.formats import FORMATS
from replication.forms import ENVELOPE, RAFT_TAG, SNAPSHOT_TAG
from replication.raft import encode_message
from replication.repair import HAS, REPAIR_TAG, EntryAnswer
from replication.snapshots import ACKNOWLEDGED, CHUNK, FINAL, Part
from tests.raft.test_messages import messages_of

PARTITION, FRONT_END = 258, 7

Parts = list[bytes]
Call = tuple[str, tuple[Any, ...]]
"""A method of a port, and its arguments."""

KINDS: Final = {f"{family.name}: {kind.name}": (family, kind) for family in FAMILIES for kind in family.kinds}

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)  # fmt: skip

NUMBERS = st.integers(0, 2**64 - 1)


@st.composite
def parts_of_streams(draw: st.DrawFn) -> Part:
    kind = draw(st.sampled_from([CHUNK, FINAL, ACKNOWLEDGED]))
    entries = draw(st.lists(st.tuples(NUMBERS, NUMBERS, st.just(0)), max_size=3)) if kind == CHUNK else []
    count = {CHUNK: len(entries), FINAL: 2, ACKNOWLEDGED: 0}[kind]
    body = draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count))
    return Part(kind, draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)), draw(NUMBERS), tuple(entries), body)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    # An array's type cannot be subscripted where the hints are read.
    fields = inspect.signature(Run).parameters
    types = {"str": str, "int": int, "bool": bool}
    plain = {
        name: draw(SCALARS[types[one.annotation]])
        for name, one in fields.items()
        if one.annotation in types and name not in ("special", "format", "channel")
    }
    plain["channel"] = draw(st.integers(0, 2**16 - 1))
    plain["format"] = draw(st.sampled_from(sorted(FORMATS)))
    lengths = draw(
        st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=3).map(lambda one: array("I", one))
    )
    raw = draw(st.binary(max_size=5))
    if lengths is not None and draw(st.booleans()):
        return Run(**{**plain, "skip": OWN_METHODS}, routing_key=None, lengths=lengths, raw=raw)
    return Run(**plain, routing_key=draw(SCALARS[str]), lengths=lengths, raw=raw)


@st.composite
def entry_answers(draw: st.DrawFn) -> EntryAnswer:
    found = draw(st.integers(0, 2))
    data = draw(st.binary(max_size=5)) if found == HAS else b""
    return EntryAnswer(draw(NUMBERS), draw(NUMBERS), found, data)


SCALARS: Final[dict[Any, st.SearchStrategy[Any]]] = {
    int: NUMBERS,
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    str: st.text(max_size=4),
    bytes: st.binary(max_size=5),
    type(None): st.none(),
    Any: PLAIN,
    Part: parts_of_streams(),
    Run: runs(),
    EntryAnswer: entry_answers(),
}


@cache
def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type."""
    if hint in SCALARS:
        return SCALARS[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Final:
        return strategy(arguments[0])
    if origin in (Union, UnionType):
        return st.one_of(*map(strategy, arguments))
    if origin in (list, Sequence) or origin is None:
        return st.lists(strategy(arguments[0]), max_size=3) if arguments else instances(hint)
    if origin is frozenset:
        return st.frozensets(strategy(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(*map(strategy, arguments), max_size=3)
    assert origin is tuple, hint
    return st.tuples(*map(strategy, arguments))


def instances(of: Any) -> st.SearchStrategy[Any]:
    """Objects of a class, from the types of its fields."""
    return st.builds(of, **{name: strategy(hint) for name, hint in get_type_hints(of).items()})


@cache
def said(family: MessageFamily, kind: MessageKind) -> st.SearchStrategy[Any]:
    """Any message of a kind: an object, or a call."""
    if family.tag == RAFT_TAG:
        return messages_of(kind.form)
    if inspect.isclass(kind.form):
        return strategy(kind.form)
    hints = get_type_hints(kind.form)
    arguments = [strategy(hints[name]) for name in inspect.signature(kind.form).parameters if name in hints]
    return st.tuples(st.just(kind.form.__name__), st.tuples(*arguments))


def encode(family: MessageFamily, message: Any) -> Parts:
    """As the node that says it does."""
    if family.decode is None:
        return sent_by(family, *message)
    if family.tag == RAFT_TAG:
        return [ENVELOPE.pack(RAFT_TAG, PARTITION), *encode_message(message)]
    if family.tag == SNAPSHOT_TAG:
        return [ENVELOPE.pack(SNAPSHOT_TAG, PARTITION), *message.encode()]
    parts: Parts = message.encode(PARTITION) if family.tag == REPAIR_TAG else message.encode()
    return parts


def decode(family: MessageFamily, parts: Parts) -> Any:
    """As the node that hears it does; None where it is of a later release."""
    if family.decode is not None:
        return family.decode(parts)
    recorder = Recorder()
    RECEIVERS[family.tag](recorder, parts)
    return recorder.calls[0] if recorder.calls else None


class Recorder:
    """Either port, and what was called."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append((name, arguments))


RECEIVERS: Final[dict[bytes, Callable[[Any, Parts], None]]] = {
    TO_OWNER: receive_for_owner,
    TO_FRONT_END: receive_for_front_end,
}


TELLS_ALL: Final = TellsLeases(lambda: True, lambda: True)


def sent_by(family: MessageFamily, method: str, arguments: tuple[Any, ...]) -> Parts:
    sent: list[Parts] = []

    def send(parts: Sequence[bytes | memoryview]) -> None:
        sent.append([bytes(part) for part in parts])

    remote: Any = RemoteOwner(PARTITION, send)
    if family.tag == TO_FRONT_END:
        remote = RemoteFrontEnd(PARTITION, FRONT_END, send, tells=TELLS_ALL)
    getattr(remote, method)(*arguments)
    return sent[0]


@st.composite
def spoilt(draw: st.DrawFn, good: list[Parts]) -> Parts:
    """A message that had the right form, and may have it no more."""
    parts = list(draw(st.sampled_from(good)))
    place = draw(st.integers(0, len(parts) - 1))
    octets = parts[place]
    match draw(st.sampled_from(["cut", "flip", "longer", "other", "fewer", "more"])):
        case "cut":
            parts[place] = octets[: draw(st.integers(0, max(0, len(octets) - 1)))]
        case "flip" if octets:
            at = draw(st.integers(0, len(octets) - 1))
            changed = octets[at] ^ 1 << draw(st.integers(0, 7))
            parts[place] = octets[:at] + bytes([changed]) + octets[at + 1 :]
        case "longer":
            parts[place] = octets + draw(st.binary(min_size=1, max_size=9))
        case "other" if place:
            parts[place] = msgpack.packb(draw(PLAIN))
        case "fewer":
            del parts[max(1, place) :]
        case _:
            parts.append(draw(st.binary(max_size=9)))
    return parts

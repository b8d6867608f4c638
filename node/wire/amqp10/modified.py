"""The message annotations of the outcome modified, and those that tell the error of the outcome rejected:
octets for the queue, and messages with them (part 3, sections 3.4.3 and 3.4.5).

The octets are an encoded map with symbols for keys. A later map has precedence, key by key, and the map over
the annotations that the message came with.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from node.message.run import Run
from node.wire.amqp10.deaths import changed_pairs
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.definitions import Error, Modified, Rejected
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import AnnotationBoundsError, ValueSyntaxError, WireError
from node.wire.amqp10.messages import annotation_pairs, edited, sections_in, with_heads
from node.wire.amqp10.values import AmqpValue, Symbol

MODIFIED_OCTETS: Final = 64 * 1024
"""The largest map of a message, with all that its consumers have given it."""

RESERVED: Final = frozenset(
    (
        "x-cc",
        "x-bcc",
        "x-delay",
        "x-opt-delivery-delay",
        "x-opt-deaths",
        "x-death",
        "x-delivery-count",
        "x-opt-delivery-count",
        "x-opt-delivery-time",
        "x-exchange",
        "x-routing-key",
        "x-opt-amqp-0-9-1",
        "x-basic-type",
    )
)
"""Annotations that the node derives itself, that stand for a part of the bare message, or that ask for
routes: a consumer cannot change them.
"""

REJECTION: Final = "x-opt-rejected-"

RESERVED_PREFIXES: Final = ("x-first-death-", "x-last-death-", "x-amqp-1.0-", REJECTION)

DESCRIPTION_CHARACTERS: Final = 1024
"""The most characters of an error's description in a dead letter whose error has too many octets."""


def annotations_told(state: object) -> bytes:
    """The octets of the annotations that an outcome states; empty for none. The error of a rejection becomes
    annotations.

    Keys that are reserved, or not ASCII, are left out: a client that gives back what it has got must not
    fail. Raises AnnotationBoundsError above MODIFIED_OCTETS.
    """
    if isinstance(state, Rejected):
        return b"" if state.error is None else _error_told(state.error)
    if not isinstance(state, Modified) or not state.message_annotations:
        return b""
    told = {
        Symbol(key): value
        for key, value in state.message_annotations.items()
        if key.isascii() and key not in RESERVED and not key.startswith(RESERVED_PREFIXES)
    }
    return _bounded(told) if told else b""


def _error_told(error: Error) -> bytes:
    """The octets of the annotations of a dead letter that its consumer has rejected with an error. An error
    with too many octets is told without its info, and with the beginning of its description.
    """
    told: dict[Symbol, AmqpValue] = {Symbol(f"{REJECTION}condition"): Symbol(error.condition)}
    if error.description is not None:
        told[Symbol(f"{REJECTION}description")] = error.description
    info = {Symbol(key): value for key, value in (error.info or {}).items() if key.isascii()}
    try:
        return _bounded(told | {Symbol(f"{REJECTION}info"): info} if info else told)
    except AnnotationBoundsError:
        told[Symbol(f"{REJECTION}condition")] = Symbol(error.condition[:DESCRIPTION_CHARACTERS])
        if error.description is not None:
            told[Symbol(f"{REJECTION}description")] = error.description[:DESCRIPTION_CHARACTERS]
        return _bounded(told)


def merged_maps(former: bytes, later: bytes) -> bytes:
    """The octets of both maps, of which the later one has precedence; `former` is empty for none. Raises
    AnnotationBoundsError above MODIFIED_OCTETS, and WireError where octets are no map of annotations.
    """
    return _bounded(_pairs(former) | _pairs(later) if former else _pairs(later))


def with_map(run: Run, octets: bytes) -> Run:
    """The messages of AMQP 1.0 with these annotations. Other sections keep their octets."""
    return with_heads(run, partial(_changed, _pairs(octets)))


def _changed(changes: dict[str, AmqpValue], head: bytes) -> bytes:
    pairs = annotation_pairs(head, sections_in(head).message_annotations)
    return edited(head, None, changed_pairs(pairs, changes, set()))


def _pairs(octets: bytes) -> dict[str, AmqpValue]:
    found = decode_value(octets)
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ValueSyntaxError("the octets are no map of annotations")
    return {Symbol(key): value for key, value in found.items()}


def _bounded(pairs: dict[str, AmqpValue] | dict[Symbol, AmqpValue]) -> bytes:
    octets = encode_amqp(pairs)
    if len(octets) > MODIFIED_OCTETS:
        raise AnnotationBoundsError(f"a message gets more than {MODIFIED_OCTETS} octets of annotations")
    try:
        decode_value(octets)
    except WireError as error:
        raise AnnotationBoundsError(str(error)) from None
    return octets

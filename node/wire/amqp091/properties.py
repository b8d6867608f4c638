"""Checks the content headers of incoming messages (§4.2.6.1), and decodes no more than the checks need.

Properties go to the consumer as they came. The checks keep a publisher from sending properties that break the
decoders of other clients.
"""

from __future__ import annotations

import re
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from node.names import REPLY_TO
from node.wire.amqp091.errors import (
    ExpirationError,
    FieldSyntaxError,
    ForgedUserIdError,
    FrameError,
    UnexpectedFrameError,
)
from node.wire.amqp091.fields import MAX_FIELDS
from node.wire.amqp091.header_tables import HeaderTable
from node.wire.amqp091.methods import BASIC_PROPERTIES, BasicPublish
from node.wire.amqp091.primitives import LONG, SHORT, encode_shortstr

CLASS_BASIC: Final = 60
PERSISTENT: Final = 2
"""The delivery mode of messages that survive a restart."""

_HEADER: Final = Struct(">HHQ")
HEADER_FIXED: Final = _HEADER.size
"""The number of octets before the property flags: class, weight, body size."""

_MORE_FLAGS: Final = 1
PROPERTY_NUMBERS: Final = {name: number for number, (name, _) in enumerate(BASIC_PROPERTIES)}
"""The number of each property of class basic; the flag of the property 0 is bit 15."""

PROPERTY_FLAGS: Final = {name: 1 << (15 - number) for name, number in PROPERTY_NUMBERS.items()}
"""The flag of each property of class basic, in the order of their values (§4.2.6.1)."""

_KNOWN_FLAGS: Final = sum(PROPERTY_FLAGS.values())
_SIZES: Final = {"octet": 1, "timestamp": 8}
_REMEMBERED_OCTETS: Final = 256 * 1024
"""Octets of memory for the remembered valid property lists of a connection."""

TRAITS_OCTETS: Final = 200
"""Octets of memory for one remembered property list, in addition to its own."""

_CACHED_SIZE: Final = 256
_REPLY_HERE: Final = encode_shortstr(REPLY_TO)
_NUMBER: Final = re.compile(rb"[+-]?[0-9]+")


SPECIAL_HEADERS: Final = frozenset((b"CC", b"BCC", b"x-delay"))
"""The headers that ask something of the broker."""

MAX_EXPIRATION_MS: Final = 2**32 - 1
"""The longest time-to-live that RabbitMQ takes."""


ORDINARY_VALUES: Final = 128
"""Header values of a message that a publisher may send at any rate. Applications send fewer."""


class Traits(NamedTuple):
    """The properties that concern the broker. `special`: the message has an expiration, a priority, or one of
    SPECIAL_HEADERS.
    """

    persistent: bool
    special: bool
    reply_here: bool = False
    """The message asks for a direct reply to the publishing channel (`reply_to`)."""
    wide: int = 0
    """Header values beyond ORDINARY_VALUES, those of tables and arrays within the headers included."""

    @property
    def bits(self) -> int:
        """The traits but `wide`, as `native.Scan` takes them."""
        return self.persistent | self.special << 1 | self.reply_here << 2


class ContentHeader(NamedTuple):
    """The facts that the broker has to know of a content before its body comes."""

    body_size: int
    traits: Traits


class PropertyChecks:
    """Checks property lists, and remembers the valid ones, because publishers repeat them."""

    __slots__ = ("_latest", "_latest_traits", "_seen", "checked", "remembered", "user", "wide")

    def __init__(self, claims: str | None = None) -> None:
        """`claims` is the only user-id that property lists may have; None admits any."""
        self.user = None if claims is None else claims.encode("utf-8", "surrogateescape")
        self._seen: dict[bytes, Traits] = {}
        # The last long property list, which is looked up again where it ends a run.
        self._latest = b""
        self._latest_traits = Traits(False, False)
        self.remembered = 0
        """Octets of memory for the remembered lists."""
        self.checked = 0
        """Octets of the lists that were checked and not remembered. The reader, which counts the work, sets
        it back to 0.
        """
        self.wide = 0
        """The sum of `Traits.wide` over incoming messages. The reader, which counts the work, sets it back to
        0.
        """

    def traits(self, properties: bytes) -> Traits:
        """The traits of a property list, checked or remembered.

        Raises FieldSyntaxError where the octets are no property list, ExpirationError, ForgedUserIdError.
        """
        found = self._seen.get(properties)
        if found is None:
            if properties == self._latest:
                return self._latest_traits
            self.checked += len(properties)
            found = check_properties(properties)
            if self.user is not None:
                self._check_user_id(properties, self.user)
            self._remember(properties, found)
        return found

    def _remember(self, properties: bytes, traits: Traits) -> None:
        if self.remembered > _REMEMBERED_OCTETS:
            self.clear()
        if len(properties) <= _CACHED_SIZE:
            self._seen[properties] = traits
            self.remembered += len(properties) + TRAITS_OCTETS
        else:
            self.remembered += len(properties) - len(self._latest)
            self._latest, self._latest_traits = properties, traits

    def clear(self) -> None:
        """Forget all property lists."""
        self._seen.clear()
        self._latest = b""
        self.remembered = 0

    def _check_user_id(self, properties: bytes, user: bytes) -> None:
        """Check that a message's user-id is the publisher's name (RabbitMQ's extension: validated
        user-id).
        """
        claimed = user_id_of(properties)
        if claimed is not None and claimed != user:
            raise ForgedUserIdError(
                f"user_id property set to '{claimed.decode('utf-8', 'replace')}' "
                f"but authenticated user was '{user.decode('utf-8', 'surrogateescape')}'",
                (BasicPublish.CLASS_ID, BasicPublish.METHOD_ID),
            )

    def header(self, payload: bytes) -> ContentHeader:
        """Check the payload of a content header frame.

        Raises FrameError for another class than basic, UnexpectedFrameError for another weight than zero and
        for a header that is cut short, and the errors of `traits` for its properties.
        """
        if len(payload) < HEADER_FIXED + 2:
            raise UnexpectedFrameError("a content header is cut short")
        class_id, weight, body_size = _HEADER.unpack_from(payload)
        if class_id != CLASS_BASIC:
            raise FrameError(f"a content header of class {class_id} after basic.publish")
        if weight:
            raise UnexpectedFrameError("the weight of a content header must be zero")
        traits = self.traits(payload[HEADER_FIXED:])
        self.wide += traits.wide
        return ContentHeader(body_size, traits)


def check_properties(data: bytes, values_max: int = MAX_FIELDS) -> Traits:
    """Check a property list; return its traits. Its headers may have `values_max` values.

    Raises FieldSyntaxError for flags that class basic does not define and for malformed values, and
    ExpirationError.
    """
    try:
        flags, at = _flags(data)
        persistent = special = reply_here = False
        wide = 0
        for number, (name, kind) in enumerate(BASIC_PROPERTIES):
            if flags & (1 << (15 - number)):
                if name == "delivery_mode":
                    persistent = data[at] == PERSISTENT
                elif name == "headers":
                    headers = HeaderTable(data, at, values_max)
                    at = headers.end
                    special |= not SPECIAL_HEADERS.isdisjoint(headers.names)
                    wide = max(0, headers.values - ORDINARY_VALUES)
                    continue
                elif name == "priority":
                    special = True
                elif name == "reply_to":
                    reply_here = data.startswith(_REPLY_HERE, at)
                elif name == "expiration":
                    special = True
                    parse_expiration(data[at + 1 : at + 1 + data[at]])
                at = _behind(data, at, kind)
    except (StructError, IndexError):
        raise FieldSyntaxError("a property list is cut short") from None
    if at != len(data):
        raise FieldSyntaxError("a property list is too long or cut short")
    return Traits(persistent, special, reply_here, wide)


def _flags(data: bytes) -> tuple[int, int]:
    """The property flags, and the position of the values."""
    (flags,) = SHORT.unpack_from(data)
    at = SHORT.size
    more = flags & _MORE_FLAGS
    while more:
        (further,) = SHORT.unpack_from(data, at)
        at += SHORT.size
        more = further & _MORE_FLAGS
        if further & ~_MORE_FLAGS:
            raise FieldSyntaxError("property flags of no property of class basic")
    if flags & ~(_KNOWN_FLAGS | _MORE_FLAGS):
        raise FieldSyntaxError("property flags of no property of class basic")
    return flags, at


def property_places(data: bytes) -> dict[str, tuple[int, int]]:
    """The begin and end of each property's value in a list, by name.

    Raises FieldSyntaxError, IndexError or struct.error for lists that `check_properties` refuses.
    """
    flags, at = _flags(data)
    places = {}
    for number, (name, kind) in enumerate(BASIC_PROPERTIES):
        if flags & (1 << (15 - number)):
            end = _behind(data, at, kind)
            places[name] = at, end
            at = end
    return places


def user_id_of(data: bytes) -> bytes | None:
    """The user-id in a property list that `check_properties` has accepted; None without one."""
    place = property_places(data).get("user_id")
    return None if place is None else data[place[0] + 1 : place[1]]


def _behind(data: bytes, at: int, kind: str) -> int:
    """The position behind a value. Short strings may have any octets, as applications put ids into them."""
    if kind == "shortstr":
        return at + 1 + data[at]
    if kind == "table":
        length: int = LONG.unpack_from(data, at)[0]
        return at + LONG.size + length
    return at + _SIZES[kind]


def parse_expiration(text: bytes) -> int:
    """The milliseconds in an expiration. Raises ExpirationError, with RabbitMQ's words, for any
    other text.
    """
    shown = text.decode("utf-8", "replace")
    found = _NUMBER.match(text)
    if found is None:
        reason = "no_integer"
    elif found.end() < len(text):
        reason = f'{{leftover_string,"{shown[found.end() :]}"}}'
    elif (number := int(found[0])) < 0:
        reason = f"{{value_negative,{number}}}"
    elif number > MAX_EXPIRATION_MS:
        reason = f"{{value_too_big,{number}}}"
    else:
        return number
    raise ExpirationError(f"invalid expiration '{shown}': {reason}")

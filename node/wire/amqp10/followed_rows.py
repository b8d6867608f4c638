"""The rows of a view that a peer follows over a link: what the peer has been told, and what it has still to
be told. Pure.

The peer gets a message for each row, and another one when the row changes or goes. Changes of one row that
the peer has not fetched are one message. Rows are JSON texts, by the texts of their keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from node.wire.amqp10.definitions import Properties, SectionCode
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import AmqpValue, Described, Symbol, ULong

VIEW_KEY: Final = Symbol("x-opt-view-key")
"""The key of a message's row: a JSON array with the values of the expressions by which the view groups."""

VIEW_DELETED: Final = Symbol("x-opt-view-deleted")
"""Whether the view has the row no more. The body is null then."""

VIEW_BEHIND: Final = Symbol("x-opt-view-behind")
"""By how many messages the view lagged behind its queue."""

VIEW_COMPLETE: Final = Symbol("x-opt-view-complete")
"""Whether the view's rows lacked nothing."""

NO_VERSION: Final[tuple[int, ...]] = (0, 0)
"""No rows have this version."""

WAIT_MS: Final = 20_000
"""A question for other rows waits so long, in milliseconds."""

COUNTING_WAIT_MS: Final = 100
"""As WAIT_MS, while a new owner counts the messages of the queue."""

MERGED_ROWS: Final = 1000
"""Of a view with more rows the peer is told rows as they were read, without another look before."""

_ROW_OCTETS: Final = 256
"""Octets of memory for a row beside those of its key."""

_WAITING_OCTETS: Final = 128
"""Octets of memory for a change that waits, beside those of its row."""

_DIGEST_OCTETS: Final = 8
_GONE: Final = b"null"


class RowsRead(NamedTuple):
    """The rows of a view, by their keys; None where they are those of the version that was asked about.

    `version` is the owner's term, and the number of the version in it; where the queue has several owners the
    sums of theirs, and then those of each. The rows lack `behind` messages;
    `complete`: they lack nothing. `at_once`: all rows are of one moment.
    """

    version: tuple[int, ...]
    rows: Mapping[str, bytes] | None
    behind: int
    complete: bool
    at_once: bool


class FollowedRows:
    """See the module's docstring."""

    __slots__ = (
        "_behind",
        "_complete",
        "_newest",
        "_told",
        "_waiting",
        "_withheld",
        "checked",
        "checking",
        "octets",
        "outdated",
        "polling",
        "stale",
        "version",
        "view",
    )

    def __init__(self, view: str) -> None:
        self.view: Final = view
        self.version = NO_VERSION
        """The version for another than which the next question waits."""
        self.octets = 0
        """Octets of memory for the rows."""
        self.polling = self.checking = False
        """A question for other rows is on its way that waits for them, or one that does not."""
        self.outdated = False
        """The peer has asked for the rows since the question that does not wait."""
        self.checked = False
        """The rows are those of an answer to such a question."""
        self.stale = False
        """The rows are to be read before the peer gets any: they have waited for credit."""
        self._told: dict[str, bytes] = {}
        """The digests of the rows that the peer has, by their keys."""
        self._waiting: dict[str, bytes | None] = {}
        """Changes that the peer does not know, by the keys of their rows; None: the row has gone."""
        self._newest = NO_VERSION
        self._withheld = False
        """The view has a new owner, which has not counted all messages yet."""
        self._behind, self._complete = 0, True

    @property
    def waiting(self) -> bool:
        """Whether there are changes that the peer does not know."""
        return bool(self._waiting)

    @property
    def wait_ms(self) -> int:
        """For how many milliseconds the next question waits for other rows."""
        return COUNTING_WAIT_MS if self._withheld else WAIT_MS

    def credit_came(self) -> None:
        """The peer wants messages, or the end of a drain."""
        self.checked, self.outdated = False, self.checking
        self.stale = bool(self._waiting) and len(self._told) + len(self._waiting) <= MERGED_ROWS

    def take(self, read: RowsRead) -> None:
        """Take an answer. An answer to an earlier question than the last one that was answered changes
        nothing, and neither do the rows of a new owner before it has counted all messages: they would shrink
        and grow again.
        """
        if read.version < self._newest:
            return
        self._behind, self._complete = read.behind, read.complete
        if read.rows is None:
            if self._withheld and read.complete:
                self.version = NO_VERSION
            return
        former, self._newest = self._newest, read.version
        self.version = read.version if read.at_once else NO_VERSION
        new_owner = former != NO_VERSION and (self._withheld or former[0] != read.version[0])
        self._withheld = new_owner and not read.complete
        if not self._withheld:
            self._merge(read.rows)

    def _merge(self, rows: Mapping[str, bytes]) -> None:
        told, waiting = self._told, self._waiting
        for key in [key for key in waiting if key not in rows and key not in told]:
            self._settle(key)
        for key in told:
            if key not in rows:
                self._wait(key, None)
        for key, row in rows.items():
            if told.get(key) == _digest(row):
                self._settle(key)
            else:
                self._wait(key, row)

    def _wait(self, key: str, row: bytes | None) -> None:
        self._settle(key)
        self._waiting[key] = row
        self.octets += _WAITING_OCTETS + len(key) + len(row or b"")

    def _settle(self, key: str) -> bytes | None:
        """No change of a row waits any more. Returns the row, None where there was no change, or no row."""
        if key not in self._waiting:
            return None
        row = self._waiting.pop(key)
        self.octets -= _WAITING_OCTETS + len(key) + len(row or b"")
        return row

    def take_message(self) -> bytes:
        """The message for the first change that waits; the peer knows the change from then on."""
        key = next(iter(self._waiting))
        row = self._settle(key)
        known = self._told.pop(key, None) is not None
        if row is not None:
            self._told[key] = _digest(row)
        self.octets += ((row is not None) - known) * (_ROW_OCTETS + len(key))
        annotations: AmqpValue = {
            VIEW_KEY: key,
            VIEW_DELETED: row is None,
            VIEW_BEHIND: ULong(self._behind),
            VIEW_COMPLETE: self._complete,
        }
        properties = Properties(content_type=_JSON)
        head = encode_amqp(Described(ULong(SectionCode.MESSAGE_ANNOTATIONS), annotations))
        body = encode_amqp(Described(ULong(SectionCode.DATA), _GONE if row is None else row))
        return head + properties.encode() + body


_JSON: Final = Symbol("application/json")


def _digest(row: bytes) -> bytes:
    return blake2b(row, digest_size=_DIGEST_OCTETS).digest()

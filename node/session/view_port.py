"""Reading the rows of views over queues: the port of the broker, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from node.refusal import Refusal

LONGEST_WAIT_S: Final = 20
"""The most that a client may wait for other rows, in seconds."""


class ViewVersion(NamedTuple):
    """The version of a view's rows, which its owner counts in its term.

    Where the queue has several owners, `parts` has the terms and numbers of all of them in turns, in the
    order of the parts, and `term` and `number` are the sums. Terms grow, and numbers in a term: so the sums
    are the same for equal parts alone, and later versions are greater.
    """

    term: int = 0
    number: int = 0
    parts: tuple[int, ...] = ()

    def __str__(self) -> str:
        return "-".join(f"{term}.{number}" for term, number in self.of_parts)

    @property
    def of_parts(self) -> list[tuple[int, int]]:
        """The version of each part; of a queue with one owner the version itself."""
        numbers = self.parts or (self.term, self.number)
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, the inverse of `version_of`."""
        return (self.term, self.number, *self.parts)


def version_of(numbers: Sequence[int]) -> ViewVersion:
    """The version with these `ViewVersion.numbers`."""
    return ViewVersion(numbers[0], numbers[1], tuple(numbers[2:]))


def version_of_parts(parts: Sequence[tuple[int, int]]) -> ViewVersion:
    """The version with the terms and numbers of these parts; of one part: of a queue with one owner."""
    if len(parts) == 1:
        return ViewVersion(*parts[0])
    numbers = tuple([number for part in parts for number in part])
    return ViewVersion(sum(numbers[::2]), sum(numbers[1::2]), numbers)


UNKNOWN_VERSION: Final = ViewVersion()
"""No view has this version."""


class ViewRows(NamedTuple):
    """The rows of a view, as values of the fields with these names.

    The rows lack `behind` messages. `awaited`: the queue has a new owner, which does not know yet of some
    messages whether consumers have them. `at_once`: all rows are of one moment. `cut`: there are more rows.
    `keys` are the values by which the view groups, of each row; empty unless a client has asked for them.
    `unchanged`: the rows have the version that the client knows, and are left out.
    """

    version: ViewVersion
    behind: int
    awaited: bool
    at_once: bool
    cut: bool
    fields: list[str]
    rows: list[list[Any]]
    keys: Sequence[list[Any]] = ()
    unchanged: bool = False

    @property
    def complete(self) -> bool:
        """Whether the rows lack nothing."""
        return not (self.behind or self.awaited or self.cut)


TakeRows = Callable[[ViewRows | None, Refusal | None], None]
"""Takes the rows, or a refusal."""


class ViewPort(Protocol):
    """The views of a broker, as sessions see them."""

    def queue_of(self, vhost: str, view: str) -> str:
        """The queue under a view. Raises NotFoundError."""

    def read(
        self,
        vhost: str,
        view: str,
        holder: int,
        known: ViewVersion,
        wait_ms: int,
        answer: TakeRows,
        *,
        keyed: bool = False,
    ) -> None:
        """Read the rows, where they have the version `known` up to `wait_ms` milliseconds later. `holder` is
        the number of a connection, to which exclusive queues belong. `keyed`: with the keys of the rows, and
        without rows where they have the version `known` still.

        Raises NotFoundError, HomeNodeDownError, ResourceLockedError for an exclusive queue of another
        connection, and NotImplementedRefusal for `keyed` while a node of an earlier release is a member.
        """


def followed(after: str, wait: str) -> tuple[ViewVersion, int]:
    """The version for another than which a client waits, and for how many milliseconds at most, by the texts
    of a request; both may be empty. Raises ValueError.
    """
    if not after:
        return UNKNOWN_VERSION, 0
    parts = [(int(term), int(number)) for term, number in (part.split(".") for part in after.split("-"))]
    wait_s = float(wait or "0")
    if not 0 <= wait_s <= LONGEST_WAIT_S:
        raise ValueError(f"wait is not from 0 to {LONGEST_WAIT_S} seconds")
    if len(parts) > _MOST_PARTS or not all(0 <= number < _MOST for part in parts for number in part):
        raise ValueError("after is no version")
    return version_of_parts(parts), round(wait_s * 1000)


_MOST: Final = 1 << 63
_MOST_PARTS: Final = 16

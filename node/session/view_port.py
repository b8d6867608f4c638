"""Reading the rows of views over queues: the port of the broker, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from node.refusal import Refusal

LONGEST_WAIT_S: Final = 20
"""The most that a client may wait for other rows, in seconds."""


class ViewVersion(NamedTuple):
    """The version of a view's rows, which its owner counts in its term."""

    term: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.term}.{self.number}"


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
    term, number = [int(part) for part in after.split(".")]
    wait_s = float(wait or "0")
    if not 0 <= wait_s <= LONGEST_WAIT_S:
        raise ValueError(f"wait is not from 0 to {LONGEST_WAIT_S} seconds")
    if not (0 <= term < _MOST and 0 <= number < _MOST):
        raise ValueError("after is no version")
    return ViewVersion(term, number), round(wait_s * 1000)


_MOST: Final = 1 << 63

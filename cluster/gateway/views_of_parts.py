"""Reads the rows of a view over a queue with several owners: those of all parts, merged
(docs/decisions/0095-views-over-several-owners.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from cluster.gateway.link import Links
from cluster.gateway.view_pages import MOST_ROWS, OF_PART, PagesRead, ViewReading
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from node.queue.merged_rows import MergedRows, digest_of_terms
from node.queue.view_terms import ViewTerms
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.ports import QueueRef
from node.session.view_port import (
    UNKNOWN_VERSION,
    TakeRows,
    ViewRows,
    ViewVersion,
    version_of_parts,
)

WATCH_MS: Final = 500
"""An owner keeps a question for another version of its part so long, in milliseconds. A reading that waits
longer asks again: a part that rests keeps the questions of those that follow another part no longer.
"""

Changed = Callable[[bool], None]
"""Called with whether the rows of a part may have another version than the one that is known."""

PartAnswer = PagesRead | Refusal
"""The answer of one owner."""

TakeAnswers = Callable[[list[PartAnswer]], None]
"""Takes the answers of all owners, in the order of the parts."""


class PartWatches:
    """The questions of a front end that wait for other rows of parts: one for each part and view, for all
    that follow the view.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self._waiting: dict[tuple[int, str], list[tuple[tuple[int, int], Changed]]] = {}

    def watch(self, part: QueueRef, name: str, known: tuple[int, int], changed: Changed) -> None:
        """Have `changed` called once the rows have another version, or in WATCH_MS at the latest."""
        key = (part.id, name)
        waiting = self._waiting.setdefault(key, [])
        waiting.append((known, changed))
        if len(waiting) == 1:
            arguments = [*NOTHING_TO_GET, part.id, name, 0, *known, WATCH_MS, *OF_PART]
            answered = partial(self._answered, key)
            self._links.request(self._links.to(part.partition), "view", arguments, answered)

    def _answered(self, key: tuple[int, str], value: Any, _: object) -> None:
        told = value is not None and value != NOT_FOUND
        for known, changed in self._waiting.pop(key):
            changed(not told or known != tuple(value[:2]))


class PartsReading:
    """One reading of a view, of all parts of its queue.

    The rows of all parts are read, and then each owner is asked whether its rows are still those. Where that
    is so everywhere, and nothing was lent meanwhile, there was a moment at which all rows were these.
    """

    def __init__(
        self,
        links: Links,
        watches: PartWatches,
        parts: Sequence[QueueRef],
        terms: ViewTerms,
        answer: TakeRows,
        *,
        keyed: bool,
    ) -> None:
        """`parts` are in the order of their numbers. `keyed`: see `node.session.view_port.ViewPort.read`."""
        self._links, self._watches, self._parts = links, watches, parts
        self._terms, self._answer, self._keyed = terms, answer, keyed
        self._digest = digest_of_terms(terms)

    def begin(self, known: ViewVersion, wait_ms: int) -> None:
        """Read the rows, where they have the version `known` up to `wait_ms` milliseconds later."""
        versions = known.of_parts
        if len(versions) != len(self._parts):
            self._read()
        elif wait_ms > 0:
            self._watch(versions, -(-wait_ms // WATCH_MS))
        elif self._keyed:
            self._ask(versions, 1, partial(self._looked, versions))
        else:
            self._read()

    # -- waiting --------------------------------------------------------------------------------

    def _watch(self, versions: list[tuple[int, int]], times: int) -> None:
        """Wait for other rows of a part, so many times at most."""
        awaited = [len(self._parts)]

        def told(changed: bool) -> None:
            # After the first change the others do not matter.
            awaited[0] = 0 if changed else awaited[0] - 1
            if changed or not awaited[0]:
                self._waited(versions, 0 if changed else times - 1, changed)

        def once(changed: bool) -> None:
            if awaited[0] > 0:
                told(changed)

        for part, version in zip(self._parts, versions, strict=True):
            self._watches.watch(part, self._terms.name, version, once)

    def _waited(self, versions: list[tuple[int, int]], times: int, changed: bool) -> None:
        if times:
            self._watch(versions, times)
        elif changed or not self._keyed:
            self._read()
        else:
            self._ask(versions, 1, partial(self._looked, versions))

    def _looked(self, versions: list[tuple[int, int]], found: list[PartAnswer]) -> None:
        """The owners have told whether their rows have these versions."""
        same = [one for one in found if isinstance(one, PagesRead) and one.rows is None]
        if len(same) < len(found) or any(one.told != self._digest for one in same):
            self._read()
            return
        behind, awaited = sum(one.behind for one in same), any(one.awaited for one in same)
        fields = [name for name, _ in self._terms.fields]
        version = version_of_parts(versions)
        self._answer(ViewRows(version, behind, awaited, True, False, fields, [], unchanged=True), None)

    # -- reading --------------------------------------------------------------------------------

    def _read(self) -> None:
        unknown = (UNKNOWN_VERSION.term, UNKNOWN_VERSION.number)
        self._ask([unknown] * len(self._parts), MOST_ROWS, self._found)

    def _ask(
        self, versions: list[tuple[int, int]], most: int, done: Callable[[list[PartAnswer]], None]
    ) -> None:
        """Ask all owners for rows that do not have these versions, about so many at most."""
        found = dict[int, PartAnswer]()

        def answered(index: int, read: PagesRead | None, refusal: Refusal | None) -> None:
            answer = read if read is not None else refusal
            assert answer is not None
            found[index] = answer
            if len(found) == len(self._parts):
                done([found[number] for number in range(len(self._parts))])

        for index, part in enumerate(self._parts):
            reading = ViewReading(
                self._links, part, self._terms.name, partial(answered, index), part=True, most=most
            )
            reading.begin(ViewVersion(*versions[index]), 0)

    def _found(self, found: list[PartAnswer]) -> None:
        """All owners have answered. One that has the view by other terms, or not yet, has no rows."""
        refused = [one for one in found if isinstance(one, Refusal)]
        others = [one for one in refused if not isinstance(one, NotFoundError)]
        if others or len(refused) == len(found):
            self._answer(None, (others or refused)[0])
            return
        whole = not refused and all(isinstance(one, PagesRead) and self._fits(one) for one in found)
        fitting = [one for one in found if isinstance(one, PagesRead) and self._fits(one)]
        if any(one.cut for one in fitting):
            self._refuse_rows()
            return
        versions = [
            (one.version.term, one.version.number) if isinstance(one, PagesRead) else (0, 0) for one in found
        ]
        merged = MergedRows(self._terms)
        for one in fitting:
            merged.add(one.rows or [])
        if len(merged) > MOST_ROWS:
            self._refuse_rows()
        elif whole and all(one.at_once for one in fitting):
            self._ask(versions, 1, partial(self._checked, versions, merged, fitting))
        else:
            behind, awaited = sum(one.behind for one in fitting), any(one.awaited for one in fitting)
            self._tell(versions, merged, behind, awaited=awaited or not whole, at_once=False)

    def _fits(self, read: PagesRead) -> bool:
        return bool(read.told == self._digest)

    def _checked(
        self,
        versions: list[tuple[int, int]],
        merged: MergedRows,
        read: list[PagesRead],
        found: list[PartAnswer],
    ) -> None:
        """The owners have told whether the rows that they have told are still theirs."""
        behind, awaited, at_once = 0, False, True
        for one, again in zip(read, found, strict=True):
            late = again.behind if isinstance(again, PagesRead) else 0
            behind += max(one.behind, late)
            awaited = awaited or one.awaited
            same = isinstance(again, PagesRead) and again.rows is None and again.transfers == one.transfers
            at_once = at_once and same
        self._tell(versions, merged, behind, awaited=awaited, at_once=at_once)

    def _tell(
        self,
        versions: list[tuple[int, int]],
        merged: MergedRows,
        behind: int,
        *,
        awaited: bool,
        at_once: bool,
    ) -> None:
        fields = [name for name, _ in self._terms.fields]
        keys = merged.keys if self._keyed else ()
        version = version_of_parts(versions)
        self._answer(ViewRows(version, behind, awaited, at_once, False, fields, merged.rows, keys), None)

    def _refuse_rows(self) -> None:
        refusal = PreconditionFailedError(
            f"view '{self._terms.name}' has more than {MOST_ROWS} rows, and its queue several owners"
        )
        self._answer(None, refusal)

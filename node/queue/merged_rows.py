"""The rows of a view over a queue with several owners, each of which has a view over its part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from node.queue.accumulators import Accumulator, accumulator_of, grouping_of
from node.queue.view import fields_of_row
from node.queue.view_terms import ViewTerms

_DIGEST_OCTETS: Final = 8


def digest_of_terms(terms: ViewTerms) -> bytes:
    """The same octets for terms of equal rows, on every node."""
    told = (terms.row, terms.groupings, [str(one) for one in terms.functions], terms.fields)
    return blake2b(repr(told).encode(), digest_size=_DIGEST_OCTETS).digest()


class MergedRows:
    """The groups of all parts. Groups with equal values are one, in the order in which they come."""

    def __init__(self, terms: ViewTerms) -> None:
        self._terms = terms
        self._groups: dict[tuple[Any, ...], tuple[list[Any], list[Accumulator]]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, rows: Sequence[list[Any]]) -> None:
        """Add the rows of a part, as `View.page` gives them for this."""
        groupings, functions = self._terms.groupings, self._terms.functions
        for row in rows:
            key, shares = row[:groupings], row[groupings:]
            values = tuple([grouping_of(value) for value in key])
            found = self._groups.get(values)
            if found is None:
                found = self._groups[values] = key, [accumulator_of(function) for function in functions]
            for accumulator, share in zip(found[1], shares, strict=True):
                accumulator.merge(share)

    @property
    def rows(self) -> list[list[Any]]:
        """The values of the view's fields, for each group."""
        return [fields_of_row(self._terms, *group) for group in self._groups.values()]

    @property
    def keys(self) -> list[list[Any]]:
        """The values by which the view groups, for each group."""
        return [key for key, _ in self._groups.values()]

"""One view over the ready messages of a queue, kept up to date in steps.

The view gets the comings and goings of messages as ranges, and looks at them later: so no message waits for
the view. The view keeps the contribution of a message while the message is in the queue, and counts a message
that a consumer has given back without another look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from node.expressions.aggregates import Aggregate
from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.accumulators import (
    Accumulator,
    accumulator_of,
    grouping_of,
    operand_of,
    shown_grouping,
)
from node.queue.filtering import Looking, ReadMessages
from node.queue.values import Values
from node.queue.view_terms import ViewTerms
from node.ranges.range_set import Range, RangeSet, count_of, numbers_of

_CHANGE_STEPS: Final = 4
"""The steps to count a message in a group, or no more, beside one for each aggregate."""

_OCTETS_A_STEP: Final = 64
"""A run with so many octets takes a step more."""

_REMEMBERED: Final = 4096
"""So many different contributions are remembered, to be shared."""

PAGE_ROWS: Final = 1000
"""The most rows of a page."""

PAGE_CHARACTERS: Final = 256 * 1024
"""A page with so many characters of text gets no further row."""


class Contribution(NamedTuple):
    """The contribution of one message: the values by which a view groups the message, and those of the
    aggregates.
    """

    group: tuple[Any, ...]
    operands: tuple[Any, ...]


class ViewGroup:
    """The messages with equal values of the group's expressions."""

    __slots__ = ("accumulators", "count", "id", "values")

    def __init__(self, id: int, values: tuple[Any, ...], functions: tuple[Aggregate, ...]) -> None:
        self.id = id
        self.values = values
        self.count = 0
        self.accumulators: list[Accumulator] = [accumulator_of(function) for function in functions]

    def change(self, operands: tuple[Any, ...], by: int) -> None:
        """One message more, or one less."""
        self.count += by
        for accumulator, value in zip(self.accumulators, operands, strict=True):
            if value is None:
                continue
            if by > 0:
                accumulator.add(value)
            else:
                accumulator.remove(value)


class ViewPage(NamedTuple):
    """Rows of a view. `last` is the number of the last row's group where there are more rows, else 0."""

    rows: list[list[Any]]
    last: int


class View:
    """See the module's docstring. `version` grows with each step that has changed rows."""

    __slots__ = (
        "_by_number",
        "_change_steps",
        "_contributions",
        "_counted",
        "_entering",
        "_gone",
        "_groups",
        "_ids",
        "_last_group",
        "_leaving",
        "_looked",
        "_looking",
        "_matching",
        "_remembered",
        "_unseen",
        "_values",
        "terms",
        "version",
    )

    def __init__(self, terms: ViewTerms, ready: Iterable[Range], version: int = 0) -> None:
        """`ready` are the messages that are ready now. Raises TreeError for malformed terms."""
        self.terms = terms
        self.version = version
        self._looking = Looking(Selector(terms.row))
        self._values = Values(self._looking.selector)
        self._change_steps = _CHANGE_STEPS + len(terms.functions)
        self._unseen = RangeSet(ready)
        """Ready messages that the view has not looked at."""
        self._looked = RangeSet()
        """Messages of the queue that the view has looked at."""
        self._matching = RangeSet()
        """Those of them that the filter takes."""
        self._counted = RangeSet()
        """The messages that are in the rows."""
        self._entering = RangeSet()
        """Ready messages that the view knows, and that are not in the rows yet."""
        self._leaving = RangeSet()
        """Messages that are in the rows, and ready no more."""
        self._gone = RangeSet()
        """Messages that have left the queue, and whose contributions the view still has."""
        self._contributions: dict[int, Contribution] = {}
        self._remembered: dict[Contribution, Contribution] = {}
        self._groups: dict[tuple[Any, ...], ViewGroup] = {}
        self._by_number: dict[int, ViewGroup] = {}
        self._ids = RangeSet()
        self._last_group = 0
        if not terms.groupings:
            self._group(())

    # -- messages come and go -------------------------------------------------------------------

    def add(self, first: int, last: int) -> None:
        """Messages become ready. Some may be known, as they were leased."""
        while first <= last:
            looked, upto = self._looked.span(first)
            end = last if upto is None else min(upto, last)
            if looked:
                self._leaving.remove(first, end)
                for part in self._matching.intersection(first, end):
                    self._entering.add(*part)
                    self._entering.remove_all(self._counted.intersection(*part))
            else:
                self._unseen.add(first, end)
            first = end + 1

    def remove(self, first: int, last: int) -> None:
        """Messages are ready no more."""
        self._unseen.remove(first, last)
        self._entering.remove(first, last)
        self._leaving.update(self._counted.intersection(first, last))

    def gone(self, ranges: Iterable[Range]) -> None:
        """Messages leave the queue. Another message may come back under the number of one of them."""
        for first, last in ranges:
            self.remove(first, last)
            self._gone.update(self._matching.intersection(first, last))
            self._matching.remove(first, last)
            self._looked.remove(first, last)

    @property
    def behind(self) -> int:
        """The number of messages whose coming or going is not in the rows yet."""
        return len(self._unseen) + len(self._entering) + len(self._leaving)

    # -- steps ----------------------------------------------------------------------------------

    @property
    def wants(self) -> bool:
        """Whether there is something to do."""
        return bool(self._unseen or self._entering or self._leaving or self._gone)

    def step(self, read: ReadMessages, steps: int) -> int:
        """Bring the rows nearer to the queue in about so many steps; return how many it took.

        Raises DamagedEntryError where `read` does.
        """
        left = self._change(self._leaving, steps, -1)
        left = self._forget(left)
        left = self._change(self._entering, left, 1)
        while left > 0 and self._unseen and not self._gone:
            left -= self._look(read, left)
        return steps - left

    def _change(self, messages: RangeSet, left: int, by: int) -> int:
        """Count the messages of a set in their groups, or no more, and empty the set; return the steps
        that are left.
        """
        if left <= 0 or not messages:
            return left
        taken = messages.take(max(1, left // self._change_steps))
        for part in taken:
            if by > 0:
                self._counted.add(*part)
            else:
                self._counted.remove(*part)
        for number in numbers_of(taken):
            self._count(self._contributions[number], by)
        self.version += 1
        return left - count_of(taken) * self._change_steps

    def _forget(self, left: int) -> int:
        """Forget the contributions of messages that have left the queue; return the steps that are left."""
        if left <= 0 or not self._gone or self._leaving:
            return left
        taken = self._gone.take(left)
        for number in numbers_of(taken):
            del self._contributions[number]
        return left - count_of(taken)

    def _look(self, read: ReadMessages, left: int) -> int:
        """Look at the first messages of the first range that is unseen, and count those that the filter
        takes; return the steps that this took.
        """
        front = self._unseen.front()
        assert front is not None
        first, last = front
        most = max(1, left // self._looking.message_steps)
        taken = 0
        for start, run in read(first, min(last, first + most - 1)):
            count = self._looking.within(run, left - taken)
            taken += self._take_in(start, run.slice(0, count))
            if count < run.count or taken >= left:
                break
        return taken

    def _take_in(self, first: int, run: Run) -> int:
        last = first + run.count - 1
        found = list(self._values.stretches(run))
        self._unseen.remove(first, last)
        self._looked.add(first, last)
        taken = len(found) * self._looking.message_steps
        for index, count, row in found:
            if not isinstance(row, tuple):
                continue
            low, high = first + index, first + index + count - 1
            self._matching.add(low, high)
            self._counted.add(low, high)
            contribution = self._contribution(row)
            for number in range(low, high + 1):
                self._contributions[number] = contribution
                self._count(contribution, 1)
            taken += count * self._change_steps
            self.version += 1
        return taken + len(run.raw) // _OCTETS_A_STEP

    def _contribution(self, row: tuple[Any, ...]) -> Contribution:
        """The contribution of a message with these values, in one object for many messages where values are
        alike.
        """
        groupings, functions = self.terms.groupings, self.terms.functions
        values = tuple([grouping_of(value) for value in row[:groupings]])
        group = self._groups.get(values)
        if group is not None:
            values = group.values
        operands = tuple([operand_of(*each) for each in zip(functions, row[groupings:], strict=True)])
        made = Contribution(values, operands)
        if any(isinstance(operand, float) for operand in operands):
            # A double and a long that are equal must stay apart.
            return made
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        return self._remembered.setdefault(made, made)

    # -- groups ---------------------------------------------------------------------------------

    def _group(self, values: tuple[Any, ...]) -> ViewGroup:
        self._last_group += 1
        group = self._groups[values] = ViewGroup(self._last_group, values, self.terms.functions)
        self._by_number[group.id] = group
        self._ids.add(group.id, group.id)
        return group

    def _count(self, contribution: Contribution, by: int) -> None:
        group = self._groups.get(contribution.group) or self._group(contribution.group)
        group.change(contribution.operands, by)
        if not group.count and self.terms.groupings:
            del self._groups[group.values], self._by_number[group.id]
            self._ids.remove(group.id, group.id)

    def page(self, behind: int, *, keyed: bool = False, shares: bool = False) -> ViewPage:
        """The rows of the groups behind one, by its number, in the order in which the groups began. `keyed`:
        with the values of each group behind its row. `shares`: the rows are for `MergedRows`, and have the
        values of each group, and what is to be merged of its aggregates.
        """
        rows, characters, last = list[list[Any]](), 0, 0
        for number in _each(self._ids.behind(behind)):
            if len(rows) == PAGE_ROWS or characters >= PAGE_CHARACTERS:
                return ViewPage(rows, last)
            group, last = self._by_number[number], number
            key = [shown_grouping(value) for value in group.values]
            if shares:
                row = key + [accumulator.share() for accumulator in group.accumulators]
            else:
                row = fields_of_row(self.terms, key, group.accumulators) + (key if keyed else [])
            characters += sum([len(value) for value in row if isinstance(value, str)])
            rows.append(row)
        return ViewPage(rows, 0)


def fields_of_row(terms: ViewTerms, key: list[Any], accumulators: Iterable[Accumulator]) -> list[Any]:
    """The values of a view's fields, by the values of a group and the aggregates over it."""
    values = key + [accumulator.result() for accumulator in accumulators]
    return [values[place] for _, place in terms.fields]


def _each(ranges: Iterator[Range]) -> Iterator[int]:
    for first, last in ranges:
        yield from range(first, last + 1)

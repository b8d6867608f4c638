"""The values of an expression for messages in runs. Messages with equal properties have equal values, unless
the expression has a path into their bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from node.expressions.expression import Expression
from node.message.run import Run
from node.wire.formats import format_of

_REMEMBERED: Final = 256
"""The values for so many different properties are remembered."""

_Key = TypeVar("_Key")


class LoneInteger:
    """The facts of a message for an expression that asks for one property of applications, which is this
    integer in the message.
    """

    __slots__ = ("integer",)

    def __init__(self) -> None:
        self.integer = 0

    @property
    def unreadable(self) -> bool:
        return False

    def standard(self, name: str) -> object:
        return None

    def application(self, name: str) -> object:
        return self.integer

    def extension(self, name: str) -> object:
        return None

    def in_body(self, path: tuple[str, ...]) -> object:
        return None


class Values:
    """Evaluates one expression, and remembers values."""

    __slots__ = ("_expression", "_integer", "_known", "_of_integers", "_told")

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._integer = LoneInteger()
        self._of_integers: dict[int, object] = {}
        self._known: dict[tuple[int, str, str | None, bool, bytes], object] = {}
        self._told: dict[bytes, object] = {}
        """Values by the headers that the expression asks for."""

    def pieces(self, run: Run) -> Iterator[tuple[int, Run]]:
        """(index, run) for the messages as runs of one routing key each, where the expression asks for the
        key.
        """
        if not self._expression.by_key or run.routing_key is not None:
            yield 0, run
            return
        index = 0
        for _, piece in format_of(run).by_key(run):
            yield index, piece
            index += piece.count

    def value(self, run: Run, properties: bytes) -> object:
        """The value for messages of a run of `pieces` with these properties, where the expression has no path
        into their bodies.
        """
        key = run.format, run.exchange, run.routing_key, run.persistent, properties
        try:
            return self._known[key]
        except KeyError:
            value = self._expression.value(format_of(run).facts(run, properties))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = value
        return value

    def by_headers(self, run: Run) -> Sequence[tuple[int, int, object]] | None:
        """(index, count, value) for messages of a run in a row, found by the headers for which the expression
        asks; None where it asks for anything else, or the format has no quick way to its headers.
        """
        names = self._expression.headers
        if len(names) == 1:
            integers = format_of(run).told_integers(run, names[0])
            if integers is not None:
                # An expression that is no more than the property has the integers as its values.
                return integers if self._expression.lone_property else self._by_integers(integers)
        found = format_of(run).told_headers(run, names) if names else None
        if found is None:
            return None
        keys, facts = found
        return _in_rows(keys, self._told, lambda key: self._expression.value(facts(key)))

    def _by_integers(self, integers: list[tuple[int, int, int]]) -> list[tuple[int, int, object]]:
        """(index, count, value) for messages in a row, by the integer that each has in the one property for
        which the expression asks.
        """

        def value_of(integer: int) -> object:
            self._integer.integer = integer
            return self._expression.value(self._integer)

        return _in_rows(integers, self._of_integers, value_of)

    def stretches(self, run: Run) -> Iterable[tuple[int, int, object]]:
        """(index, count, value) for messages of a run in a row."""
        told = self.by_headers(run)
        return self._by_properties(run) if told is None else told

    def _by_properties(self, run: Run) -> Iterator[tuple[int, int, object]]:
        """As `stretches`, by the whole properties of the messages, or their bodies."""
        for begin, piece in self.pieces(run):
            messages = format_of(piece)
            for index, count, properties in messages.properties_in(piece):
                if not self._expression.by_body:
                    yield begin + index, count, self.value(piece, properties)
                    continue
                for one in range(index, index + count):
                    facts = messages.facts(piece.slice(one, 1), properties)
                    yield begin + one, 1, self._expression.value(facts)


def _in_rows(
    keys: Sequence[tuple[int, int, _Key]], known: dict[_Key, object], value_of: Callable[[_Key], object]
) -> list[tuple[int, int, object]]:
    """(index, count, value) for messages in a row with one value, out of (index, count, key) for those with
    one key. `known` are the values that are remembered by key.
    """
    values = list[tuple[int, int, object]]()
    begin, behind, last = 0, 0, None
    for first, count, key in keys:
        if key not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = value_of(key)
        value = known[key]
        if value is not last and behind:
            values.append((begin, behind - begin, last))
            begin = first
        behind, last = first + count, value
    if behind:
        values.append((begin, behind - begin, last))
    return values

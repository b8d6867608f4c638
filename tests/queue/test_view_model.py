"""Views over the messages of a queue, against a recount of all its ready messages."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from node.expressions.condition import encoded_condition
from node.message.run import Run
from node.queue.filtering import LookBudget
from node.queue.settings import QueueSettings
from node.queue.view import View
from node.queue.view_terms import view_terms, with_views
from tests.messages import content, run_of
from tests.queue.model_queue import READY
from tests.queue.owner_model import OwnerAgainstModel
from tests.queue.test_filter_model import FilterOwnerAgainstModel

SUMS = {
    "n": "COUNT(*)",
    "known": "COUNT(/p)",
    "sum": "SUM(/p)",
    "avg": "AVG(/p)",
    "least": "MIN(/p)",
    "most": "MAX(/p)",
}
BY_COLOUR = view_terms("by colour", "/n <> 3", ["/colour"], {"colour": "/colour", **SUMS})
ALL = view_terms("all", "", [], SUMS)
BY_HEADER = view_terms("by header", "", ["odd"], {"n": "COUNT(*)", "odd": "odd"})

Message = dict[str, Any]


def message(number: int) -> Message:
    """The body of the message with this number."""
    price: Any = [number % 7, number % 5 + 0.1, None, "text"][number % 4]
    return {"n": number, "colour": ["red", "green", None][number % 3], "p": price}


def octets(number: int) -> bytes:
    texts = {
        name: f'"{value}"' if isinstance(value, str) else value for name, value in message(number).items()
    }
    body = ", ".join(f'"{name}": {"null" if value is None else value}' for name, value in texts.items())
    return content(f"{{{body}}}".encode(), headers={"odd": bool(number % 2)})


def recount(messages: list[Message], *keys: str) -> dict[tuple[Any, ...], Message]:
    """The rows of a view with the fields `SUMS`, by the values of the group, made of all messages anew."""
    groups: dict[tuple[Any, ...], list[Any]] = {} if keys else {(): []}
    for one in messages:
        groups.setdefault(tuple(one[key] for key in keys), []).append(one["p"])
    return {key: summed(values) for key, values in groups.items()}


def summed(values: list[Any]) -> Message:
    numbers = [value for value in values if isinstance(value, int | float)]
    ordered = sorted(numbers) + sorted(value for value in values if isinstance(value, str))
    total = math.fsum(numbers)
    return {
        "n": len(values),
        "known": len(ordered),
        "sum": total if numbers else None,
        "avg": pytest.approx(total / len(numbers), rel=1e-15) if numbers else None,
        "least": ordered[0] if ordered else None,
        "most": ordered[-1] if ordered else None,
    }


def rows_of(view: View, *keys: str) -> dict[tuple[Any, ...], Message]:
    """The rows of a view by the values of these fields, without them."""
    found, last, behind = dict[tuple[Any, ...], Message](), 1, 0
    while last:
        rows, last = view.page(behind)
        behind = last
        for row in rows:
            named = dict(zip((name for name, _ in view.terms.fields), row, strict=True))
            key = tuple(named.pop(one) for one in keys)
            assert key not in found
            found[key] = named
    return found


# -- owners of queues with views --------------------------------------------------------------------------


class ViewsAgainstRecount(OwnerAgainstModel):
    """Two views over a queue that any program changes, in steps of any size."""

    settings = with_views(QueueSettings(), (BY_COLOUR, ALL))
    steps, every = 0, 2

    def run(self, first: int, count: int) -> Run:
        return run_of([octets(number) for number in range(first, first + count)])

    def look(self, steps: int) -> bool:
        views = self.owner.delivery.views
        assert views is not None
        views.begin(lambda: None)
        return views.look(self.owner.delivery.deepest, self.owner.read_messages, LookBudget(1, steps))

    @rule(every=st.integers(1, 4))
    def look_each(self, every: int) -> None:
        """From now on the views look at all messages after so many steps."""
        self.every = every

    @rule(steps=st.sampled_from((1, 30, 100)))
    def look_a_little(self, steps: int) -> None:
        self.look(steps)

    def compare(self) -> None:
        while self.look(1000):
            pass
        self.check_rows()

    def check_rows(self) -> None:
        views = self.owner.delivery.views
        assert views is not None
        ready = [message(number) for number in self.queue.at(READY)]
        by_colour, whole = views.by_name["by colour"], views.by_name["all"]
        assert (by_colour.behind, whole.behind) == (0, 0)
        assert rows_of(by_colour, "colour") == recount([one for one in ready if one["n"] != 3], "colour")
        assert rows_of(whole) == recount(ready)

    @invariant()
    def check_lag(self) -> None:
        """A view that lags behind says so; one that does not is right."""
        if not hasattr(self, "owner") or self.owner.delivery.views is None:
            return
        self.steps += 1
        if self.steps % self.every == 0:
            self.compare()
        elif not any(view.behind for view in self.owner.delivery.views.by_name.values()):
            self.check_rows()


class ViewsBesideFilters(FilterOwnerAgainstModel, ViewsAgainstRecount):
    """Consumers have filters, which come and go before and after the views."""

    settings = with_views(QueueSettings(), (ALL, BY_HEADER))

    def run(self, first: int, count: int) -> Run:
        colours = ("red", "green", "blue")
        return run_of(
            [
                octets(number)[:0]
                + content(body_of(number), headers={"odd": bool(number % 2), "colour": colours[number % 3]})
                for number in range(first, first + count)
            ]
        )

    def check_rows(self) -> None:
        views = self.owner.delivery.views
        assert views is not None
        ready = self.queue.at(READY)
        assert rows_of(views.by_name["all"]) == recount([message(number) for number in ready])
        counts = defaultdict[tuple[Any, ...], int](int)
        for number in ready:
            counts[bool(number % 2),] += 1
        rows = rows_of(views.by_name["by header"], "odd")
        assert {key: row["n"] for key, row in rows.items()} == counts

    @rule(first=st.booleans(), second=st.booleans())
    def define(self, first: bool, second: bool) -> None:
        """Other views are defined, or none."""
        wanted = (ALL,) * first + (BY_HEADER,) * second
        self.owner.lifecycle.reconfigure(with_views(QueueSettings(), wanted))
        self.owner.lifecycle.reconfigure(self.settings)


def body_of(number: int) -> bytes:
    data = octets(number)
    return data[data.index(b"{") : data.rindex(b"}") + 1]


class ViewsOfGroups(ViewsAgainstRecount):
    settings = with_views(QueueSettings(group_by="key"), (BY_COLOUR, ALL))


class ViewsOfRanks(ViewsAgainstRecount):
    settings = with_views(QueueSettings(priority_expression=encoded_condition("/n")), (BY_COLOUR, ALL))


RUNS_OF_MODEL = settings(max_examples=60, stateful_step_count=40)

TestViews = pytest.mark.requirement("D15.2", "D15.3")(ViewsAgainstRecount.TestCase)
TestViews.settings = RUNS_OF_MODEL
TestViewsBesideFilters = pytest.mark.requirement("D15.2", "D15.3")(ViewsBesideFilters.TestCase)
TestViewsBesideFilters.settings = RUNS_OF_MODEL
TestViewsOfGroups = pytest.mark.requirement("D15.3")(ViewsOfGroups.TestCase)
TestViewsOfGroups.settings = RUNS_OF_MODEL
TestViewsOfRanks = pytest.mark.requirement("D15.3")(ViewsOfRanks.TestCase)
TestViewsOfRanks.settings = RUNS_OF_MODEL

"""Streams that a view feeds (D15; queue argument x-view of a stream).

The owner of the stream reads the rows of the view, and publishes what differs from the rows that the log says
the stream has told (`cluster.owner.fed_streams`). The stream refuses all other messages: none of them is a
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from node.message.streams import STREAM_TYPE, X_QUEUE_TYPE, X_VIEW
from node.queue.argument import Argument
from node.queue.argument_types import read_text
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, FeatureContext, Incoming, Repeats, Rule
from node.queue.settings import QueueSettings
from node.queue.weights import Weights
from node.ranges.range_set import Range


def _misfit(_: str, arguments: Mapping[str, object]) -> str:
    """The reason for which a view feeds no queue with the other arguments; empty for none."""
    if arguments.get(X_QUEUE_TYPE) != STREAM_TYPE:
        return f"a view feeds streams; declare the queue with {X_QUEUE_TYPE}: {STREAM_TYPE}"
    return f"no stream has both {X_VIEW} and x-filter; filter the view" if "x-filter" in arguments else ""


SOURCE_VIEW: Final = Argument("x-view", read_text, "source_view", misfit=_misfit)


class RowsOfView(Feature):
    """Has the owner go on with the rows, behind the deliveries of a turn."""

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        context.feed()


class OfView(Rule):
    """Refuses the messages of clients, and dead letters."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self._view = view

    def describe(self, description: Description) -> None:
        description.view = self._view

    def refuse(
        self,
        queue: DeliveryState,
        share: Feature | None,
        upcoming: Weights | None,
        incoming: Incoming,
        repeats: Repeats,
    ) -> list[Range]:
        return [(0, incoming.run.count - 1)]


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    return None if SOURCE_VIEW.of(delivery.settings) is None else former or RowsOfView()


def _rule(settings: QueueSettings) -> Rule | None:
    view = SOURCE_VIEW.of(settings)
    return None if view is None else OfView(view)


FEATURE: Final[Declaration] = Declaration(SOURCE_VIEW, make=_share, rule=_rule)

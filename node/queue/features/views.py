"""Views over a queue (D15.2, D15.3): the owner keeps their rows up to date, and leases nothing for them.

No argument of the queue asks for a view. The catalog adds the views over a queue to the queue's settings.
"""

from __future__ import annotations

from typing import Final

from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature, FeatureContext
from node.queue.order import Order
from node.queue.view_terms import views_of
from node.queue.viewed import ViewedMessages
from node.ranges.range_set import Range


class ViewedQueue(Feature):
    """Tells views which messages have left the queue."""

    def __init__(self, views: ViewedMessages) -> None:
        super().__init__()
        self._views = views

    def serve(self, context: FeatureContext, now: int) -> None:
        self._views.begin(context.serve_again)

    def settle(self, ranges: list[Range]) -> None:
        self._views.gone(ranges)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    wanted, views = views_of(delivery.settings), delivery.views
    if not wanted:
        if views is not None:
            delivery.views = None
            _place(delivery, views.order.whole)
        return None
    if views is None:
        views = delivery.views = ViewedMessages(_order_of(delivery))
        _place(delivery, views.order)
    views.have(wanted)
    return former or ViewedQueue(views)


def _order_of(delivery: DeliveryState) -> Order:
    """The order of all ready messages, below that of filters."""
    return delivery.ready if delivery.filtered is None else delivery.filtered.whole


def _place(delivery: DeliveryState, order: Order) -> None:
    if delivery.filtered is None:
        delivery.ready = order
    else:
        delivery.filtered.whole = order


FEATURE: Final[Declaration] = Declaration(make=_share)

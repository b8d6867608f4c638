"""How the owner of a queue divides its messages among the consumers in a line (queue argument x-fairness).

A consumer's unused share is what it may still get, over its window: its backlog, or, for a consumer without
one, the most credit that the owner has seen it have. `in_proportion` gives each message to the consumer with
the largest unused share; ties go to the one that has stood longest in the line. A consumer goes to the end of
the line when it gets a message, and when it has room again.

All messages of a step are handed out at once, as many to each consumer as they would get one by one. Their
unused shares sink to one level, as water finds its level in vessels: each consumer gets its messages above
the level. Shares are compared as floats, which are exact for windows below 2**26.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from node.delivery.backlog import NO_BACKLOG, backlog_of
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState, Fairness

Serve = Callable[[Consumer, int, int], int]
"""(consumer, messages, how many others are to be served in this turn) -> how many it has been granted."""

Admits = Callable[[Consumer, int], int]
"""(consumer, messages) -> how many of them the queue's features let it have."""

Turn = tuple[float, int, int, int, int]
"""The order in which consumers get messages, one by one."""


def hand_out(delivery: DeliveryState, line: deque[Consumer], budget: int, serve: Serve, room: Admits) -> int:
    """Serve the consumers of a line as the queue's fairness has it; returns what is left of the budget."""
    if delivery.fairness is Fairness.FAST:
        return _first_found(delivery, line, budget, serve)
    return _in_proportion(delivery, line, budget, serve, room)


def _first_found(delivery: DeliveryState, line: deque[Consumer], budget: int, serve: Serve) -> int:
    """The first consumer in the line gets messages as long as it has room."""
    stopped: list[Consumer] = []
    while line and budget > 0 and delivery.ready:
        consumer = line.popleft()
        granted = serve(consumer, budget, 0)
        budget -= granted
        if consumer.sent >= consumer.limit:
            consumer.in_line = False
        elif granted:
            line.appendleft(consumer)
        else:
            stopped.append(consumer)
    line.extendleft(reversed(stopped))
    return budget


def _in_proportion(
    delivery: DeliveryState, line: deque[Consumer], budget: int, serve: Serve, room: Admits
) -> int:
    stopped: list[Consumer] = []
    while line and budget > 0 and delivery.ready:
        waiting = list(line)
        unused = [max(0, one.limit - one.sent) for one in waiting]
        windows = [window_of(one, delivery.backlog_cap) for one in waiting]
        messages = min(budget, len(delivery.ready))
        if not any(one.no_ack for one in waiting):
            messages = room(waiting[0], messages)
        if messages <= 0:
            break
        shares = in_proportion(unused, windows, messages)
        granted = [0] * len(waiting)
        first = served_first(unused, windows, shares)
        for rivals, i in zip(range(len(first) - 1, -1, -1), first, strict=True):
            granted[i] = serve(waiting[i], shares[i], rivals)
            if not granted[i]:
                stopped.append(waiting[i])
        others = [] if any(granted) else [i for i, share in enumerate(shares) if not share and unused[i]]
        left = messages
        for rivals, i in zip(range(len(others) - 1, -1, -1), others, strict=True):
            # None of the first can have the messages. One pass asks all the others, each for an equal share:
            # a step for each of them would cost the square of their number.
            shares[i] = -(-messages // len(others))
            granted[i] = serve(waiting[i], min(shares[i], left), rivals) if left else 0
            left -= granted[i]
            if not granted[i]:
                stopped.append(waiting[i])
        budget -= sum(granted)
        line.clear()
        for i in order_after(unused, windows, granted):
            if waiting[i].sent >= waiting[i].limit:
                waiting[i].in_line = False
            elif granted[i] or not shares[i]:
                line.append(waiting[i])
    line.extendleft(one for one in reversed(stopped) if one.in_line)
    return budget


def window_of(consumer: Consumer, cap: int) -> int:
    """A consumer's window in messages, on a queue with this cap on backlogs. Notes the credit of a consumer
    without a backlog.
    """
    backlog = backlog_of(consumer.backlog, cap, no_ack=consumer.no_ack)
    if backlog != NO_BACKLOG:
        return max(1, backlog)
    consumer.window = max(consumer.window, consumer.limit - consumer.sent)
    return max(1, consumer.window)


def in_proportion(unused: Sequence[int], windows: Sequence[int], messages: int) -> list[int]:
    """How many of the messages each consumer gets, by what each may still get and by their windows. The
    consumers are in the order in which they have waited, the longest first.
    """
    if messages >= sum(unused):
        return list(unused)
    above = _above_level(unused, windows, messages)
    shares = [0] * len(unused)
    for i, share in above:
        shares[i] = share
    excess = sum(shares) - messages
    # Whole messages above the level are more than there are: those are too many that would come last.
    latest = [_reversed(_turn(unused, windows, i, shares[i])) for i, _ in above]
    heapify(latest)
    for _ in range(excess):
        i = -heappop(latest)[4]
        shares[i] -= 1
        if shares[i]:
            heappush(latest, _reversed(_turn(unused, windows, i, shares[i])))
    return shares


def _above_level(unused: Sequence[int], windows: Sequence[int], messages: int) -> list[tuple[int, int]]:
    """The consumers whose unused shares are above the level to which all sink, with the messages that each
    could get above it. The level is (unused - messages) / windows, summed over these consumers.
    """
    emptiest_first = sorted([(-unused[i] / windows[i], i) for i in range(len(unused))])
    left, width, found = -messages, 0, list[int]()
    for _, i in emptiest_first:
        if not unused[i] or (width and unused[i] * width <= left * windows[i]):
            break
        left, width = left + unused[i], width + windows[i]
        found.append(i)
    return [(i, unused[i] - left * windows[i] // width) for i in found]


def served_first(unused: Sequence[int], windows: Sequence[int], shares: Sequence[int]) -> list[int]:
    """The consumers with shares, in the order of their first messages."""
    served = [i for i, share in enumerate(shares) if share]
    return [turn[4] for turn in sorted(_turn(unused, windows, i, 1) for i in served)]


def order_after(unused: Sequence[int], windows: Sequence[int], granted: Sequence[int]) -> list[int]:
    """The order in which the consumers wait, once they have been granted messages."""
    idle = [i for i, messages in enumerate(granted) if not messages]
    served = [i for i, messages in enumerate(granted) if messages]
    return idle + [turn[4] for turn in sorted(_turn(unused, windows, i, granted[i]) for i in served)]


def _turn(unused: Sequence[int], windows: Sequence[int], i: int, nth: int) -> Turn:
    """The turn of a consumer's nth message among all messages, handed out one by one.

    Of consumers with the same share the one goes first that has got no message yet, and of the others the one
    whose message before was earlier: its share was larger, as its window is smaller. With one window the
    consumer goes first that began with less, because it was first where it had got none.
    """
    share = (unused[i] - nth + 1) / windows[i]
    return (-share, 0, 0, 0, i) if nth == 1 else (-share, 1, windows[i], unused[i], i)


def _reversed(turn: Turn) -> Turn:
    """For the opposite order."""
    share, again, window, unused, i = turn
    return -share, -again, -window, -unused, -i

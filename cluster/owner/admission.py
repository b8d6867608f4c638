"""Which published messages queues take, refuse or leave out, and the decisions about them, by queues' rules.

The owner puts the decisions into the entry with the messages, behind them, so that every replica and the next
owner know them. Soft messages are not in the log; the decisions about them go to their queues only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from cluster.owner.feature_context import QueueContext
from cluster.owner.state import OwnerState
from node.message.run import Run, joined
from node.queue.feature import NO_REPEATS, Incoming, KeptOut, Notes
from node.queue.weights import Weights
from node.ranges.range_set import Range, RangeSet

QueueNotes = dict[int, Notes]
"""Decisions by queue."""


def may_leave_out(owner: OwnerState, queues: Sequence[int]) -> bool:
    """Whether one of the queues may refuse messages, or leave some out."""
    return any(owner.rules_of(number).leaves_out for number in queues)


def left_out(owner: OwnerState, incoming: Incoming, queues: Sequence[int]) -> dict[int, KeptOut]:
    """The messages of the run that the filter of each of the queues keeps out; mostly none."""
    found: dict[int, KeptOut] = {}
    for number in queues:
        for rule in owner.rules_of(number).leave:
            found[number] = rule.leave(incoming)
    return found


def count_left_out(owner: OwnerState, without: Mapping[int, KeptOut]) -> None:
    """Count what filters have kept out, by queue."""
    for number, one in without.items():
        queue = owner.queues.get(number)
        if queue is not None:
            queue.delivery.tally.left_out += sum(last - first + 1 for first, last in one.ranges)
            queue.delivery.tally.unreadable += one.unreadable


class Entering(NamedTuple):
    """Messages of a run that all of some queues' filters take. `places` are those of the messages in the run,
    counted from 0.
    """

    incoming: Incoming
    queues: tuple[int, ...]
    places: list[Range]

    def placed(self, parts: Iterable[Range]) -> list[Range]:
        """The places of messages that are counted from the first of these."""
        found, before = [], 0
        wanted = RangeSet(parts)
        for first, last in self.places:
            away, behind = first - before, before + last - first
            found += [(low + away, high + away) for low, high in wanted.intersection(before, behind)]
            before = behind + 1
        return found


def entering(incoming: Incoming, queues: tuple[int, ...], without: Mapping[int, KeptOut]) -> list[Entering]:
    """The messages of the run that queues are to get, in order. Messages for the same queues are one run
    where nothing but messages for no queue stands between them: the log has no cuts for messages that it
    does not have.
    """
    parts = {number: one.ranges for number, one in without.items() if one.ranges}
    if not parts:
        return [Entering(incoming, queues, [(0, incoming.run.count - 1)])]
    alike: list[tuple[tuple[int, ...], list[Run], list[Range]]] = []
    at = 0
    for piece, taking in cut(incoming.run, queues, parts):
        place = at, at + piece.count - 1
        at += piece.count
        if taking and alike and alike[-1][0] == taking:
            alike[-1][1].append(piece)
            alike[-1][2].append(place)
        elif taking:
            alike.append((taking, [piece], [place]))
    return [Entering(Incoming(joined(runs)), taking, places) for taking, runs, places in alike]


def refusals(owner: OwnerState, incoming: Incoming, queues: Sequence[int]) -> dict[int, list[Range]]:
    """The messages of the run, counted from 0, that each of the queues refuses; mostly none."""
    found: dict[int, list[Range]] = {}
    for number in queues:
        rules, queue = owner.rules_of(number), owner.queues.get(number)
        if not rules.refuse or queue is None:
            continue
        repeats = NO_REPEATS
        for feature, rule in rules.repeats:
            repeats = rule.repeats(queue.lifecycle.shares.get(feature), incoming, owner.wall_ms())
        for feature, rule in rules.refuse:
            share, upcoming = queue.lifecycle.shares.get(feature), owner.upcoming.get(number)
            parts = rule.refuse(queue.delivery, share, upcoming, incoming, repeats)
            if parts:
                found.setdefault(number, []).extend(parts)
    for number in [number for number in found if owner.described(number).view]:
        # The queues over the stream have its messages, and no others.
        over = owner.queues_over(number)
        found.update((other, [(0, incoming.run.count - 1)]) for other in queues if other in over)
    return found


def omissions(owner: OwnerState, incoming: Incoming, queues: Sequence[int]) -> dict[int, list[Range]]:
    """The messages of the run, counted from 0, that each of the queues leaves out without refusing them;
    mostly none. The queues remember the messages that they take.
    """
    found: dict[int, list[Range]] = {}
    for number in queues:
        queue = owner.queues.get(number)
        if queue is not None:
            for feature, rule in owner.rules_of(number).omit:
                parts = rule.omit(queue.lifecycle.shares.get(feature), QueueContext(owner, number), incoming)
                if parts:
                    found.setdefault(number, []).extend(parts)
    return found


def decide(owner: OwnerState, incoming: Incoming, queues: Sequence[int], first: int) -> QueueNotes:
    """Decisions, by the wall clock, about a run whose messages are numbered from `first` on."""
    found: QueueNotes = {}
    now = owner.wall_ms()
    for number in queues:
        rules = owner.rules_of(number)
        notes: Notes = {}
        for rule in rules.decide_special if incoming.run.special else rules.decide:
            rule.decide(incoming, first, now, notes)
        if notes:
            found[number] = notes
    return found


def await_arrival(owner: OwnerState, incoming: Incoming, first: int, queues: Sequence[int]) -> None:
    """Count messages, numbered from `first` on, as taken by queues with limits, until they are applied."""
    for number in queues:
        for rule in owner.rules_of(number).expect:
            rule.expect(owner.upcoming.setdefault(number, Weights()), incoming, first)


def cut(
    run: Run, queues: tuple[int, ...], without: Mapping[int, list[Range]]
) -> list[tuple[Run, tuple[int, ...]]]:
    """The run in pieces, each with the queues that take it. `without` has the messages, counted from 0, that
    a queue does not take.
    """
    if not without:
        return [(run, queues)]
    edges = {
        0,
        run.count,
        *(edge for parts in without.values() for one in parts for edge in (one[0], one[1] + 1)),
    }
    sets = {number: RangeSet(parts) for number, parts in without.items()}
    found = []
    for first, behind in pairwise(sorted(edges)):
        taking = tuple(number for number in queues if number not in sets or first not in sets[number])
        found.append((run.slice(first, behind - first), taking))
    return found

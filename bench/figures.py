"""A row of the table: how it is measured, the figures that it yields, and the goal of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from bench.measures import Samples, Stage


class Goal(Enum):
    """The figure that a goal is compared with, and which side of the goal is good."""

    TIMES_PEER_OR_MORE = "≥ {} × peer"
    TIMES_PEER_OR_LESS = "≤ {} × peer"
    AT_LEAST = "≥ {}"
    AT_MOST = "≤ {}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `sample` names the entry of the row's samples; `of` their aggregate."""

    title: str
    sample: str
    unit: str
    goal: Goal
    target: float
    of: str = "median"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to do with a cluster, and the figures it yields.

    `fresh` rows get nodes that have done nothing before: memory, once used, stays with a process. `client` is
    the package without which the row cannot be measured.
    """

    id: str
    figures: tuple[Figure, ...]
    measure: Callable[[Stage], Samples]
    fresh: bool = False
    client: str | None = None


def rate(title: str, times: float, sample: str = "rate") -> Figure:
    return Figure(title, sample, "/s", Goal.TIMES_PEER_OR_MORE, times)


def floor(title: str, least: int) -> Figure:
    return Figure(title, "rate", "/s", Goal.AT_LEAST, least)


def share_of_mixed(title: str) -> tuple[Figure]:
    return (
        Figure(f"{title}, each message another: share of the mixed rate", "share", "", Goal.AT_LEAST, 0.5),
    )


def share_of_plain(title: str, least: float) -> tuple[Figure]:
    return (Figure(f"{title}: share of the mixed rate", "share", "", Goal.AT_LEAST, least),)


def beside_rate(title: str, row: str, least: float) -> tuple[Figure]:
    return (Figure(f"{title}: share of the rate of {row}", "share", "", Goal.AT_LEAST, least),)


def share_of(title: str, whole: str) -> tuple[Figure]:
    return (Figure(f"{title}: share {whole}", "share", "", Goal.AT_LEAST, 1),)


def confirm_latency(title: str, times: float) -> tuple[Figure, Figure]:
    return (
        Figure(f"{title}: confirm p50", "p50", "ms", Goal.TIMES_PEER_OR_LESS, times),
        Figure(f"{title}: confirm p99", "p99", "ms", Goal.TIMES_PEER_OR_LESS, times),
    )


def beside_091(title: str) -> tuple[Figure, Figure]:
    return (
        Figure(f"{title}: settlement p50 as a multiple of 0-9-1's confirm", "p50", "", Goal.AT_MOST, 1.1),
        Figure(f"{title}: settlement p99 as a multiple of 0-9-1's confirm", "p99", "", Goal.AT_MOST, 1.1),
    )

"""The calls between partitions, and between a front end and owners, of one process.

A caller and a callee of different partitions share a stack. Where the callee's log has an entry that cannot
be read, the callee's work is broken off, and the caller's goes on: its own partition is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cluster.owner.transfers import TransferLink
from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.link_messages import Delivery, OwnerPort, Ranges

BrokenOff = Callable[[Callable[[], object]], None]
"""Does work of a partition; breaks it off where an entry cannot be read (`replication.repair`)."""


class LocalOwner:
    """An `OwnerPort`: the sessions of an owner on this node."""

    def __init__(self, sessions: OwnerPort, broken_off: BrokenOff) -> None:
        self._sessions, self._broken_off = sessions, broken_off

    def hello(
        self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms], tried: int
    ) -> None:
        self._broken_off(partial(self._sessions.hello, front_end, epoch, node, consumers, tried))

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        self._broken_off(partial(self._sessions.operations, front_end, epoch, number, data))

    def held(self, front_end: int, epoch: int, held: HeldLeases) -> None:
        self._broken_off(partial(self._sessions.held, front_end, epoch, held))

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        self._broken_off(partial(self._sessions.attach, front_end, epoch, request, terms))

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        self._broken_off(partial(self._sessions.detach, front_end, epoch, consumer))

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        self._broken_off(partial(self._sessions.credit, front_end, epoch, limits))

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        self._broken_off(partial(self._sessions.request, front_end, epoch, request, name, arguments))


class LocalTransfers:
    """A `FrontEndPort`: the transfer link of a partition that this node owns, for the owner at its end."""

    def __init__(self, link: TransferLink, broken_off: BrokenOff) -> None:
        self._link, self._broken_off = link, broken_off

    def room(self) -> None:
        """The link has no consumers."""

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        self._broken_off(partial(self._link.acknowledged, epoch, number, refused))

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        """The link has no consumers."""

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        self._broken_off(partial(self._link.result, epoch, request, value, delivery))

    def consumer_cancelled(self, epoch: int, consumer: int, stolen: bool = False) -> None:
        """The link has no consumers."""

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        """The link has no consumers."""

    def lease_ends_changed(self, epoch: int, queue: int, ranges: Ranges, until: int) -> None:
        """The link has no consumers."""

    def resync(self) -> None:
        self._broken_off(self._link.resync)

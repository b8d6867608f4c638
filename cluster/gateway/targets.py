"""The targets that queues keep for the links of this front end's clients
(docs/decisions/0048-targets-that-are-kept.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from cluster.catalog.membership.formats import Formats
from cluster.gateway.link import Links, PartitionLink
from cluster.gateway.refusals import refusal_of
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery
from node.queue.targets import TargetStep, UpdateTarget
from node.session.ports import QueueRef, TargetAnswer


class AttachedTarget(NamedTuple):
    """A target that a client's link has, and the way to its owner."""

    way: PartitionLink
    queue: int
    number: int
    link: bytes


class FrontEndTargets:
    """Implements `node.session.ports.TargetPort`."""

    def __init__(
        self, front_end: int, links: Links, formats: Formats, next_number: Callable[[], int]
    ) -> None:
        """`next_number` gives a number that no consumer and no target of the front end has."""
        self._front_end, self._links, self._formats = front_end, links, formats
        self._next_number = next_number
        self._attached: dict[int, AttachedTarget] = {}
        self._committing: Sequence[tuple[int, Sequence[bytes]]] = ()

    @property
    def known(self) -> bool:
        return self._formats.know_targets()

    def attach(self, queue: QueueRef, link: bytes, lost: Callable[[], None], answer: TargetAnswer) -> None:
        way, number = self._links.to(queue.partition), self._next_number()

        def attached(value: Any, _: Delivery | None) -> None:
            refusal = refusal_of(queue, value)
            if refusal is not None or value is None:
                answer(0, (), refusal)
                return
            self._attached[number] = AttachedTarget(way, queue.id, number, link)
            way.targets.attached(number, lost)
            answer(number, tuple(value[1]), None)

        self._links.request(way, "attach_target", [*NOTHING_TO_GET, queue.id, number, link], attached)

    @contextmanager
    def receiving(self, target: int, tags: Sequence[bytes]) -> Iterator[None]:
        attached = self._attached[target]
        attached.way.targets.receiving = self._step(attached, TargetStep.RECEIVED, tags)
        try:
            yield
        finally:
            attached.way.targets.receiving = None

    @contextmanager
    def committing(self, received: Sequence[tuple[int, Sequence[bytes]]]) -> Iterator[None]:
        # Before all members read the step, no tags of transactions are kept.
        self._committing = received if self._formats.log_links() else ()
        try:
            yield
        finally:
            self._committing = ()

    def committed_steps(self) -> list[tuple[PartitionLink, UpdateTarget]] | None:
        """The steps of the transaction that is committed now, and the ways to their owners; None where a link
        is gone.
        """
        found = [(self._attached.get(target), tags) for target, tags in self._committing]
        steps = [(one.way, self._step(one, TargetStep.COMMITTED, tags)) for one, tags in found if one]
        return steps if len(steps) == len(found) else None

    def settle(self, target: int, tags: Sequence[bytes]) -> None:
        attached = self._attached.get(target)
        if attached is not None:
            attached.way.update_target(self._step(attached, TargetStep.SETTLED, tags))

    def detach(self, target: int, closed: bool) -> None:
        attached = self._attached.pop(target, None)
        if attached is not None:
            attached.way.targets.detached(target)
            step = TargetStep.CLOSED if closed else TargetStep.DETACHED
            attached.way.update_target(self._step(attached, step))

    def _step(self, attached: AttachedTarget, step: TargetStep, tags: Sequence[bytes] = ()) -> UpdateTarget:
        return UpdateTarget(
            attached.queue, self._front_end, attached.number, step, attached.link, tuple(tags)
        )

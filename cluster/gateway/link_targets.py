"""The targets that queues of one partition keep for the links of this front end's clients."""

from __future__ import annotations

from collections.abc import Callable

from node.queue.decision_format import encode_target
from node.queue.targets import UpdateTarget


class LinkTargets:
    """A part of a link. `receiving`: the next messages have come in the deliveries of this step."""

    def __init__(self) -> None:
        self.receiving: UpdateTarget | None = None
        self._lost: dict[int, Callable[[], None]] = {}

    def take_tags(self, step: UpdateTarget, count: int) -> bytes:
        """The operation in front of the publish of the next `count` messages of a step."""
        self.receiving = step._replace(tags=step.tags[count:])
        return encode_target(step._replace(tags=step.tags[:count]))

    def attached(self, number: int, lost: Callable[[], None]) -> None:
        """A client's link has its target. `lost` is called if another link gets the target."""
        self._lost[number] = lost

    def detached(self, number: int) -> None:
        """The link of the client is gone."""
        self._lost.pop(number, None)

    def lost(self, number: int) -> None:
        """Another link has the target."""
        lost = self._lost.pop(number, None)
        if lost is not None:
            lost()

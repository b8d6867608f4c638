"""The parts of a partition's owner that tests look at, and no module of the product reads."""

from __future__ import annotations

from cluster.owner.partition import PartitionOwner
from cluster.owner.state import OwnerState
from node.queue.partition import PartitionMachine


def state_of(owner: PartitionOwner) -> OwnerState:
    """The state that the parts of the owner share."""
    return owner._state


def machine_of(owner: PartitionOwner) -> PartitionMachine:
    """The replicated state."""
    return owner._state.machine


def askers_of(owner: PartitionOwner, queue: int) -> list[int]:
    """The parts of a queue whose owners wait for a loan of its part `queue`."""
    return [ask.queue for ask in owner._loans._asks.get(queue, {}).values()]


def wishes_of(owner: PartitionOwner, queue: int) -> list[tuple[int, bytes]]:
    """The parts of a queue whose owners have asked its part `queue` for what a filter takes, with the octets
    of the filter. A question of a former owner does not count.
    """
    epoch = owner._state.front_ends.epoch
    wished = owner._loans.by_filter.wished(queue)
    return [(one.queue, one.selector.data) for one in wished if one.epoch == epoch(one.stand_in.front_end)]

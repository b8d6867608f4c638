"""What tests look at inside of a partition's owner: no module of the product reads its parts."""

from __future__ import annotations

from cluster.owner.partition import PartitionOwner
from cluster.owner.state import OwnerState
from node.queue.partition import PartitionMachine


def state_of(owner: PartitionOwner) -> OwnerState:
    """What the parts of the owner share."""
    return owner._state


def machine_of(owner: PartitionOwner) -> PartitionMachine:
    """The replicated state."""
    return owner._state.machine

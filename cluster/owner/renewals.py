"""Renews the leases of messages, for their consumers or for an administrator. Pure."""

from __future__ import annotations

from typing import Final

from cluster.owner.state import OwnerState
from cluster.peers.link_messages import Ranges
from node.queue.leasing import UNTOLD, Renewed, renew_leases

NOT_RENEWED: Final = Renewed(UNTOLD, [])


def renew(owner: OwnerState, number: int, ranges: Ranges, token: int) -> Renewed:
    """Renew the leases of a queue's messages (`node.queue.leasing.renew_leases`), and tell the front ends
    that have the messages. No lease is renewed where leases of the queue have no end.
    """
    queue = owner.queues.get(number)
    if queue is None:
        return NOT_RENEWED
    queue.delivery.now = owner.wall_ms()
    renewed = renew_leases(queue.delivery, queue.lifecycle.hooks.lease_until, ranges, token)
    for front_end, messages in renewed.messages:
        owner.front_ends.tell_lease_end(front_end, number, messages, renewed.until)
    return renewed

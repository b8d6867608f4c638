"""Queues over streams: which queues a message comes into, and the past of a new queue.

An owner knows the queues over a stream from its catalog, which may be ahead of that of the node where a
message was routed. So a queue misses none from its creation on, and the creation fills it with the messages
that the stream had taken before.
"""

from __future__ import annotations

from functools import partial

from cluster.owner.configuring import reconfigure
from cluster.owner.state import OwnerState
from cluster.owner.streams import place_of
from node.queue.decision_format import encode_refer


def with_queues_over(owner: OwnerState, queues: tuple[int, ...]) -> tuple[int, ...]:
    """The queues of a publish, and those over its streams. The tuple itself where these are all there."""
    found = queues
    for queue in queues:
        for other in owner.queues_over(queue) if owner.described(queue).stream else ():
            if other not in found and owner.known_settings(other) is not None:
                found = (*found, other)
    return found


def refer_past(owner: OwnerState, queue: int) -> None:
    """The owner is creating a queue: log, behind the messages that it has taken, which of its stream's are in
    the new queue, too.
    """
    point, stream = owner.described(queue).recovery_point, owner.topic_of(queue)
    source = None if stream is None else owner.queues.get(stream)
    if point is None or stream is None or source is None or queue in owner.filled:
        return
    owner.filled.add(queue)
    upto = owner.next_sequence - 1
    first = place_of(source.delivery, point, upto, owner.wall_ms()) + 1
    if first <= upto:
        owner.decision(encode_refer(queue, stream, first, upto))
        # Features look at messages that came in without their annotations.
        owner.proposal.committed.append(partial(reconfigure, owner, queue))

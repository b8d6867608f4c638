"""Messages of a leader that may lead no longer, in any state: they ask another replica to stand for
election."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from replication.forms import ENVELOPE, RAFT_TAG
from replication.group import RaftGroup
from replication.raft import Role, encode_message
from replication.raft.messages import TimeoutNow


def resign(groups: Iterable[RaftGroup], send: Callable[[str, Sequence[bytes | memoryview]], object]) -> None:
    """Ask the follower of each group led here that lacks least of the log to stand for election.

    The message carries nothing but the term: who leads next is decided by those who vote (paper §5.2,
    §5.4.1), so that it does no harm if what this leader knew of its followers was wrong.
    """
    for group in groups:
        raft = group.raft
        if raft.role is not Role.LEADER:
            continue
        voters = raft.membership.voters
        heirs = [(progress.match, peer) for peer, progress in raft.progress.items() if peer in voters]
        if heirs:
            heir = max(heirs)[1]
            said = encode_message(TimeoutNow(raft.node, heir, raft.term))
            send(heir, [ENVELOPE.pack(RAFT_TAG, group.partition), *said])

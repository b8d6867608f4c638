"""Whether a follower has caught up: within one round it got the log that the leader had when the round began.

Raft thesis, §4.2.1: a round replicates all that is in the log at its start. A round shorter than an election
time-out shows that the follower keeps up with new entries. Pure.
"""

from __future__ import annotations

from replication.group import RaftGroup


class CatchingUp:
    """Rounds of followers, by partition and node. Call `reached` often: only a call ends a round."""

    def __init__(self, round_s: float) -> None:
        self._round_s = round_s
        self._rounds: dict[tuple[int, str], tuple[int, float]] = {}

    def reached(self, group: RaftGroup, node: str, now: float) -> bool:
        """Whether the follower has caught up in a group that this node leads."""
        raft = group.raft
        progress = raft.progress.get(node)
        if progress is None or now - progress.contact > self._round_s:
            return False
        target, began = self._rounds.get((group.partition, node), (raft.last_index, now))
        done = progress.match >= target
        in_time = done and now - began <= self._round_s
        if done:
            target, began = raft.last_index, now
        self._rounds[group.partition, node] = target, began
        return in_time

    def forget(self, partition: int) -> None:
        """Forget the rounds of a group whose move is settled."""
        for key in [key for key in self._rounds if key[0] == partition]:
            del self._rounds[key]

"""Hands the groups of a node that stops over to other leaders.

A partition whose leader just stops has no leader until an election ends. A partition that is handed over
(Raft thesis §3.10) has no leader for the time of a message and a vote. Pure: call `step` until `done`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from replication.group import RaftGroup
from replication.host import Host
from replication.raft import Role


class Handover:
    """Hands over every partition that this node leads, each to a replica that is connected."""

    def __init__(self, host: Host, reachable: Callable[[], Iterable[str]]) -> None:
        """`reachable` gives the other nodes to which there is a connection."""
        self._host = host
        self._reachable = reachable
        self._asked: dict[int, tuple[str, int]] = {}
        self._given: Counter[str] = Counter()

    def step(self, now: float) -> None:
        """Hand each partition that this node leads over to a replica, and to another one if that fails.

        The Raft core gives a hand-over up after an election time-out; only then comes another replica.
        """
        for group in list(self._host.groups.values()):
            if self._to_be_given(group) and not group.raft.handing_over:
                heir = self._heir(group)
                if heir is not None:
                    self._ask(group, heir, now)

    def done(self) -> bool:
        """Whether other nodes lead every partition that they could lead."""
        groups = self._host.groups.values()
        return not any(
            self._to_be_given(group) or (group.raft.leader is None and self._heirs(group)) for group in groups
        )

    def _to_be_given(self, group: RaftGroup) -> bool:
        """Whether this node leads the group, and another replica could lead it.

        A group that this node got back after its hand-over came from a node that stops as well: this node
        keeps it.
        """
        if group.raft.role is not Role.LEADER or not self._heirs(group):
            return False
        asked = self._asked.get(group.partition)
        return asked is None or asked[1] == group.raft.term

    def _heirs(self, group: RaftGroup) -> list[str]:
        """The replicas to which there is a connection; none when they are too few to elect a leader."""
        there, voters = set(self._reachable()), group.raft.membership.voters
        heirs = sorted(voters & there)
        return heirs if 2 * (len(heirs) + 1) > len(voters) else []

    def _heir(self, group: RaftGroup) -> str | None:
        """The next replica to ask: not the one asked last, then the one that lacks least of the log, then the
        one that has got the fewest groups."""
        progress = group.raft.progress
        last = self._asked.get(group.partition, ("", 0))[0]
        return max(
            (heir for heir in self._heirs(group) if heir in progress),
            key=lambda heir: (heir != last, progress[heir].match, -self._given[heir]),
            default=None,
        )

    def _ask(self, group: RaftGroup, heir: str, now: float) -> None:
        self._host.hand_over(group.partition, heir, now)
        self._asked[group.partition] = (heir, group.raft.term)
        self._given[heir] += 1

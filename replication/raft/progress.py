"""A leader's knowledge of one follower, and the limits of what it may send to that follower."""

from __future__ import annotations

import math
from collections import deque
from enum import Enum
from typing import Final

QUIET_ROUNDS: Final = 10
"""After so many heartbeats without an append a follower is sent an empty one."""


class FollowerState(Enum):
    """How the leader feeds a follower.

    PROBE: where the logs meet is not known; one append at a time, one a heartbeat if none is answered.
    REPLICATE: appends are pipelined up to a window of octets.
    SNAPSHOT: a snapshot is on its way; nothing else is sent.
    """

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """`match`: highest entry known to be durable there. `next`: first entry to send. match < next always.

    `contact`: when the follower last answered. `round`: the last heartbeat round it answered.
    `vouched`: when that heartbeat was sent; it had voted for no later leader then.
    `commit_sent`: the highest commit index that it was told. `voter`: it has a vote, it is no mere learner.
    `append_round`: the heartbeat round in which the last append was sent to it.
    """

    __slots__ = (
        "append_round",
        "commit_sent",
        "contact",
        "inflight",
        "inflight_bytes",
        "match",
        "next",
        "probe_sent",
        "round",
        "snapshot_index",
        "state",
        "voter",
        "vouched",
    )

    def __init__(self, next_index: int, now: float) -> None:
        self.match = 0
        self.next = next_index
        self.state = FollowerState.PROBE
        self.contact = now
        self.vouched = -math.inf
        self.round = 0
        self.commit_sent = 0
        self.append_round = 0
        self.snapshot_index = 0
        self.probe_sent = False
        self.voter = False
        self.inflight: deque[tuple[int, int]] = deque()
        self.inflight_bytes = 0

    def _clear_inflight(self) -> None:
        self.inflight.clear()
        self.inflight_bytes = 0

    def probe(self) -> None:
        """Messages may be lost: find out how far the follower's log matches before sending more."""
        # A follower that finished a snapshot has at least that, whether or not its answer arrived.
        after = self.snapshot_index if self.state is FollowerState.SNAPSHOT else 0
        self.next = max(self.match, after) + 1
        self.state = FollowerState.PROBE
        self.snapshot_index = 0
        self.probe_sent = False
        self.commit_sent = 0
        self._clear_inflight()

    def resumed(self, index: int, first_index: int) -> None:
        """An answer to a probe, or to a snapshot, or of a follower that no longer needs the snapshot.

        `first_index` is that of the leader's log.
        """
        if self.state is FollowerState.PROBE:
            if index >= self.match:
                self.replicate()
        elif index >= self.snapshot_index or self.match + 1 >= first_index:
            self.replicate()

    def replicate(self) -> None:
        """The logs are known to meet at `match`: send as fast as the window allows."""
        self.state = FollowerState.REPLICATE
        self.next = self.match + 1
        self.probe_sent = False
        self.snapshot_index = 0
        self._clear_inflight()

    def send_snapshot(self, index: int) -> None:
        """A snapshot up to `index` is on its way."""
        self.state = FollowerState.SNAPSHOT
        self.snapshot_index = index
        self.probe_sent = False
        self._clear_inflight()

    def snapshot_failed(self) -> None:
        """The snapshot did not arrive."""
        self.snapshot_index = 0
        self.probe()

    def lacks(self, last_index: int) -> bool:
        """Whether there is something to send: entries, or a probe of a log that is not known to match."""
        if self.state is FollowerState.PROBE:
            return self.match < last_index
        return self.next <= last_index

    def paused(self, max_inflight_bytes: int) -> bool:
        """Whether no append may be sent now."""
        if self.state is FollowerState.REPLICATE:
            return self.inflight_bytes >= max_inflight_bytes
        return self.state is FollowerState.SNAPSHOT or self.probe_sent

    def quiet(self, round: int) -> bool:
        """Whether an empty append is due, in this heartbeat round, although there is nothing to send.

        The end of what was sent may be lost, with nothing behind it that would show the gap. And a replica
        that is joining gets its vote only with an append (`ReplicaState.regain_vote`): after a snapshot,
        while there are no proposals, this is the first.
        """
        return bool(self.inflight) or round - self.append_round >= QUIET_ROUNDS

    def sent(self, last_index: int, size: int) -> None:
        """An append that ends with entry `last_index` was sent; it counts for `size` octets."""
        if self.state is FollowerState.REPLICATE:
            self.next = last_index + 1
            if size:
                self.inflight.append((last_index, size))
                self.inflight_bytes += size
        else:
            self.probe_sent = True

    def acknowledged(self, index: int) -> bool:
        """The follower has everything up to `index`. Returns whether that is new."""
        inflight = self.inflight
        while inflight and inflight[0][0] <= index:
            self.inflight_bytes -= inflight.popleft()[1]
        if self.next <= index:
            self.next = index + 1
        if index <= self.match:
            return False
        self.match = index
        return True

    def rejected(self, index: int, matched: int, last_index: int) -> bool:
        """An append after entry `index` did not fit; the logs may meet at `matched`, and the follower's
        ends at `last_index`. Returns False if the rejection is an old one.
        """
        if last_index < self.match:
            self.lost(last_index)
            return True
        if self.state is FollowerState.REPLICATE:
            if index <= self.match:
                return False
            self.probe()
            return True
        if self.state is FollowerState.SNAPSHOT or self.next - 1 != index:
            return False
        self.next = max(min(index, matched + 1), self.match + 1)
        self.probe_sent = False
        return True

    def lost(self, last_index: int) -> None:
        """The follower lost entries that it had acknowledged: its log ends at `last_index` now. Forget its
        match.
        """
        self.match = 0
        self.state = FollowerState.PROBE
        self.snapshot_index = 0
        self.probe()
        self.next = last_index + 1

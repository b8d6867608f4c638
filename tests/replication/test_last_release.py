"""To a replica of the release before, a host says only what that release reads (docs/decisions/0020)."""

from __future__ import annotations

from replication.raft import Membership, decode_message
from replication.raft.messages import PreVoteRequest
from tests.replication.hosts import PARTITION, HostedNode


def test_only_a_peer_of_the_last_release_is_not_told_of_majorities() -> None:
    node = HostedNode("a", membership=Membership(frozenset("ab")))
    for last_release in (True, False):
        node.sent.clear()
        node.host.of_last_release = {"b": last_release}.__getitem__
        node.host.campaign(PARTITION, 9.0)
        node.sync(9.0)
        (request,) = (decode_message(parts[1:]) for _, parts in node.sent)
        assert isinstance(request, PreVoteRequest)
        assert request.in_every_majority is not last_release

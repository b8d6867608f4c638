"""Whether a node may be removed: no messages and no majority may be lost with it. Pure."""

from __future__ import annotations

from cluster.catalog.definitions import MemberState
from cluster.catalog.membership.plan import ClusterView


def only_on(view: ClusterView, name: str) -> set[int]:
    """The partitions that only this node has, if it is unreachable: no other node can copy them."""
    node = view.nodes.get(name)
    if node is None or node.reachable:
        return set()
    return {id for id, one in view.partitions.items() if one.replicas == (name,)}


def obstacle(view: ClusterView, name: str, heir: str) -> str | None:
    """Why a node cannot be removed now, and the remedy, for the administrator; None where it can."""
    stay = [
        other for other, node in view.nodes.items() if other != name and node.state is not MemberState.LEAVING
    ]
    answering = [other for other in stay if view.nodes[other].reachable]
    if not stay:
        return f"{name} is the only node"
    if 2 * len(answering) <= len(stay) and not heir:
        away = ", ".join(sorted(set(stay) - set(answering)))
        return f"without {name} there would be no majority, without an answer from {away}: start them first"
    for id, one in sorted(view.partitions.items()):
        there = [other for other in one.replicas if other in view.nodes and view.nodes[other].reachable]
        if name in one.replicas and len(one.replicas) > 1 and 2 * len(there) <= len(one.replicas):
            away = ", ".join(sorted(set(one.replicas) - set(there)))
            return f"partition {id} has no majority, without an answer from {away}: start one of them first"
        inside = [other for other in stay if one.domain in (view.nodes[other].domains or ())]
        alone = one.replicas == (name,) and view.nodes[name].reachable
        if one.domain and alone and not inside and not heir:
            return (
                f"{name} is the only node in the domain '{one.domain}' and has queues of the domain: have "
                "another node in it, or delete the queues"
            )
    return None

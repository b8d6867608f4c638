"""Domains: groups of nodes, and the queues that are on the nodes of one domain alone (requirement D20). Pure.

A node's configuration names its domains, and the node tells the catalog when it starts
(`cluster.catalog.members`). A domain is in the definition of a partition: replicas move within it
(`cluster.catalog.membership.plan`), and so does ownership, which is a replica's. All queues of the partition
are in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from node.queue.placement_arguments import X_DOMAIN, X_INITIAL_OWNER
from node.refusal import PreconditionFailedError


def nodes_in(domain: str, members: Sequence[str], told: Mapping[str, Sequence[str]]) -> list[str]:
    """Those of `members` that have told the catalog that they are in the domain."""
    return [name for name in members if domain in told.get(name, ())]


def asked_domain(arguments: Mapping[str, object]) -> str:
    """The domain that the arguments of a queue name; empty for none."""
    asked = arguments.get(X_DOMAIN, "")
    return asked if isinstance(asked, str) else ""


def check_domain(queue: str, vhost: str, domain: str, told: Mapping[str, Sequence[str]]) -> None:
    """Raises PreconditionFailedError for a domain to which no node belongs."""
    if not any(domain in names for names in told.values()):
        known = ", ".join(sorted({name for names in told.values() for name in names}))
        raise PreconditionFailedError(
            f"invalid arg '{X_DOMAIN}' for queue '{queue}' in vhost '{vhost}': no node is in the domain "
            f"'{domain}'"
            + (f"; there are {known}" if known else "; `domains` in [node] names a node's domains")
        )


def check_owner(queue: str, vhost: str, owner: str, members: Sequence[str], domain: str) -> None:
    """Raises PreconditionFailedError for an owner that is none of `members`, those of the domain if the queue
    is in one.
    """
    if owner not in members:
        where = f"the domain '{domain}'" if domain else "the cluster"
        raise PreconditionFailedError(
            f"invalid arg '{X_INITIAL_OWNER}' for queue '{queue}' in vhost '{vhost}': '{owner}' is no node "
            f"of {where}; its nodes are {', '.join(members)}"
        )

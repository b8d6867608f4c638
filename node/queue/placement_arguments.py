"""The arguments of queues that say on which nodes the queue is: its domain, its first owner, and that each
node has a queue of its own.

The catalog places queues by them (`cluster.catalog.domains`, `local_parts`); no replica looks at them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from node.message.streams import X_HISTORY, X_UNDERLYING_TOPIC
from node.queue.argument import Argument, PolicyUse, beside_none_of
from node.queue.argument_types import UnacceptableError, one_of, read_text

X_DOMAIN: Final = "x-domain"
"""The argument of a queue that names the domain whose nodes alone have its replicas and its consumers."""

X_INITIAL_OWNER: Final = "x-initial-owner"
"""The argument of a queue that names the node which is to be its first owner."""

X_REPLICATION: Final = "x-replication"
"""The argument of a queue of which each node has a part of its own, with the value LOCAL."""

LOCAL: Final = "local"

X_OWNERS: Final = "x-owners"
"""The argument of a queue that has several owners, each with a part of it: their number, or EACH_NODE."""

OWNERS_FIELD: Final = "owners"
"""The field of settings with the value of X_OWNERS."""

EACH_NODE: Final = "each-node"
"""The value for a queue that has a part for each node of the cluster."""

X_PART_OF: Final = "x-part-of"
"""The argument of the parts behind the first of a queue with several owners: the name of the queue."""

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
"""The names of nodes, and of domains of nodes."""

_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)


def _read_name(value: object) -> str:
    """The name of a node or of a domain. Raises UnacceptableError."""
    text = read_text(value)
    if not _NAME.fullmatch(text):
        raise UnacceptableError(f"{{invalid_name,{text[:64]!r}}}")
    return text


_OF_OTHER_PLACES: Final = (
    X_DOMAIN,
    X_INITIAL_OWNER,
    X_UNDERLYING_TOPIC,
    X_HISTORY,
    X_OWNERS,
    "x-quorum-initial-group-size",
    "x-queue-leader-locator",
    "x-queue-master-locator",
)
"""The arguments that place a queue elsewhere than on the one node that has the part."""


# A queue over a stream is placed with its stream.
PLACEMENT_ARGUMENTS: Final[tuple[Argument[Any], ...]] = (
    Argument(X_DOMAIN, _read_name, misfit=beside_none_of(X_DOMAIN, [X_UNDERLYING_TOPIC])),
    Argument(
        X_INITIAL_OWNER,
        _read_name,
        policy=PolicyUse.USER,
        misfit=beside_none_of(X_INITIAL_OWNER, [X_UNDERLYING_TOPIC]),
    ),
    Argument(
        X_REPLICATION,
        one_of({LOCAL: LOCAL}, "invalid_replication"),
        misfit=beside_none_of(X_REPLICATION, _OF_OTHER_PLACES),
    ),
)

"""The requests of front ends to the owner of a sink's ledger (docs/decisions/0077).

A request of the name `EPOCH_REQUEST` has a queue, a deed, an epoch, and what the deed says. Its answer is a
list.
"""

from __future__ import annotations

from typing import Final

EPOCH_REQUEST: Final = "epoch"

STAGE: Final = "stage"
"""The deed: stage a branch. The task, the attempt and the number of the branch, the number of its
transaction, and the partitions that have prepared the transaction follow.
"""

COMMIT: Final = "commit"
"""The deed: commit the epoch with branches, of which rows (task, attempt, number of branches) follow. Behind
the rows there may be the epoch, -1 for none, that must be the last one committed.
"""

DROP: Final = "drop"
"""The deed: drop the epoch's branches."""

SHOW: Final = "show"
"""The deed: show the ledger. Also the first item of the answer, which the last committed epoch, -1 for none,
and rows follow: an epoch with branches, their number, and when the last one came, in milliseconds since the
epoch of computers.
"""

STAGED: Final = "staged"
"""The first item of an answer: the branch waits for its epoch."""

TAKEN: Final = "taken"
"""The first item of an answer: another transaction has the branch's name, and waits for the epoch."""

COMMITTED: Final = "committed"
"""The first item of an answer: the epoch is committed, or a later one."""

ABANDONED: Final = "abandoned"
"""The first item of an answer: the branch's transaction is aborted."""

MISSING: Final = "missing"
"""The first item of an answer: a branch that the commit names, whose task, attempt and number follow, is not
staged.
"""

OVERTAKEN: Final = "overtaken"
"""The first item of an answer: the last committed epoch, which follows, -1 for none, is not the one that the
commit names.
"""

DROPPED: Final = "dropped"
"""The first item of an answer: no branch of the epoch waits."""

"""Bugs in queues with a history."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from cluster.owner.partition import Replica
from node.queue.chronicle import NO_DIGEST, Chronicle


def forgotten_chains() -> AbstractContextManager[object]:
    """X8: the digest after an entry covers all entries before. With the bug a replica that begins with a
    snapshot begins a new chain.
    """
    intact = Chronicle.decode

    def forgetful(data: bytes, offset: int) -> tuple[Chronicle, int]:
        made, end = intact(data, offset)
        made.digest = NO_DIGEST
        return made, end

    return mock.patch.object(Chronicle, "decode", forgetful)


def forgotten_change_of_digests() -> AbstractContextManager[object]:
    """X8: replicas agree from which entry on digests are those of BLAKE3. With the bug one that begins with a
    snapshot does not know that.
    """
    intact = Chronicle.decode

    def forgetful(data: bytes, offset: int) -> tuple[Chronicle, int]:
        made, end = intact(data, offset)
        made.blake3_from = 0
        return made, end

    return mock.patch.object(Chronicle, "decode", forgetful)


def entries_in_part() -> AbstractContextManager[object]:
    """X8: copies of entries that a history needs are whole. With the bug they have live messages alone."""
    return mock.patch.object(Replica, "needs_whole", lambda *_: False)

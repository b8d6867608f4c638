"""Bugs in the epochs of sinks, planted for the simulator to find."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from cluster.owner.epochs import EpochQuestion, OwnedEpochs
from node.queue.epoch_operations import UpdateEpoch
from node.queue.epochs import EpochTable
from node.queue.transaction_operations import TransactionKey


def unlogged_commits() -> AbstractContextManager[object]:
    """F8: an epoch is committed once, also where the owner of its ledger changes. With the bug only the owner
    knows which epochs are committed: a job that writes an epoch again commits it again at the next owner.
    """
    return _unlogged()


@contextmanager
def _unlogged() -> Iterator[None]:
    known: dict[tuple[OwnedEpochs, int], int] = {}
    apply, committed, clear = EpochTable.apply, OwnedEpochs._committed, OwnedEpochs.clear

    def forgetful(
        self: EpochTable,
        update: UpdateEpoch,
        decided: Container[TransactionKey],
        abandoned: Container[TransactionKey],
    ) -> None:
        apply(self, update, decided, abandoned)
        self.ledgers[update.queue].committed = -1

    def noting(self: OwnedEpochs, asked: EpochQuestion) -> None:
        known[self, asked.queue] = max(asked.epoch, known.get((self, asked.queue), -1))
        committed(self, asked)

    def knows(self: OwnedEpochs, asked: EpochQuestion) -> bool:
        return known.get((self, asked.queue), -1) >= asked.epoch

    def leaving(self: OwnedEpochs) -> None:
        clear(self)
        for key in [one for one in known if one[0] is self]:
            del known[key]

    with (
        mock.patch.object(EpochTable, "apply", forgetful),
        mock.patch.multiple(OwnedEpochs, _committed=noting, _is_committed=knows, clear=leaving),
    ):
        yield

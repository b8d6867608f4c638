"""A queue with x-file-backed-metadata does what a queue without does, with hardly anything in memory."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from node.queue.features.backoff import RedeliveryBackoff
from node.queue.settings import QueueSettings
from tests.queue.cold_octets import OctetsInMemory, tiny_space
from tests.queue.owner_model import REST_MS, OwnerAgainstModel
from tests.queue.test_partition import QUEUES, PartitionAgainstModel


class PagedOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(file_backed=True)


class PagedPriorityOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(file_backed=True, max_priority=9)


class PagedGroupOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(file_backed=True, group_by="key")


class PagedRestingOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(file_backed=True, redelivery_backoff=RedeliveryBackoff(REST_MS, 1.0, REST_MS))


class PagedPartitionAgainstModel(PartitionAgainstModel):
    """The machine under test keeps queues in a store, which may be full, and takes them back to memory. The
    machine that never does so has the same snapshot.
    """

    def __init__(self) -> None:
        self.store = OctetsInMemory()
        super().__init__()
        for queue in (1, 2):
            self.page(queue, True)

    @rule(queue=QUEUES, paged=st.booleans())
    def page(self, queue: int, paged: bool) -> None:
        state = self.machine.queues.get(queue)
        if state is not None:
            state.page(tiny_space(self.store) if paged else None)

    @rule()
    def fill_or_empty_the_store(self) -> None:
        self.store.full = not self.store.full


FEW = settings(max_examples=40, stateful_step_count=30)

TestPagedOwnerAgainstModel = pytest.mark.requirement("D14.1")(PagedOwnerAgainstModel.TestCase)
TestPagedOwnerAgainstModel.settings = FEW
TestPagedPriorityOwnerAgainstModel = pytest.mark.requirement("D14.1")(PagedPriorityOwnerAgainstModel.TestCase)
TestPagedPriorityOwnerAgainstModel.settings = FEW
TestPagedGroupOwnerAgainstModel = pytest.mark.requirement("D14.1")(PagedGroupOwnerAgainstModel.TestCase)
TestPagedGroupOwnerAgainstModel.settings = FEW
TestPagedRestingOwnerAgainstModel = pytest.mark.requirement("D14.1")(PagedRestingOwnerAgainstModel.TestCase)
TestPagedRestingOwnerAgainstModel.settings = FEW
TestPagedPartitionAgainstModel = pytest.mark.interpreted(
    pytest.mark.requirement("D14.1")(PagedPartitionAgainstModel.TestCase)
)
TestPagedPartitionAgainstModel.settings = FEW

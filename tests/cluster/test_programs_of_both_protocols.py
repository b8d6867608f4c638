"""Random programs of clients of both protocols on the same queues, against `tests.broker_model`."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.broker_programs import ProgramClient
from tests.cluster.link_programs import LinkProgramClient
from tests.cluster.test_programs import (
    Programs,
    ProgramsOfWhoDoesNotAcknowledge,
    ProgramsUnderKills,
    SimulatedStage,
    clients,
    run_programs,
)


class MixedStage(SimulatedStage):
    """Of two connections in a row one speaks AMQP 1.0, and one 0-9-1."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._connected = 0

    def connect(self, node: int) -> ProgramClient:
        self._connected += 1
        if self._connected % 2:
            return LinkProgramClient(self.site, self.names[node])
        return super().connect(node)


class Mixed(ProgramsOfWhoDoesNotAcknowledge):
    stage = MixedStage

    @rule(client=clients, count=st.integers(0, 3))
    def qos(self, client: int, count: int) -> None:
        """Sessions of AMQP 1.0 have no limit for all of their links."""
        self.program.qos(client, count, shared=False)


class MixedOnThreeNodes(Mixed):
    nodes = 3


class MixedUnderKills(ProgramsUnderKills):
    stage = MixedStage

    @rule(client=clients, count=st.integers(0, 3))
    def qos(self, client: int, count: int) -> None:
        self.program.qos(client, count, shared=False)


@pytest.mark.requirement(
    "A17.5", "A17.9", "B5.2", "B5.4", "B6.1", "B6.3", "B6.5", "B6.7", "B6.10", "B8.1", "B8.3", "B8.5", "F2.1"
)
@pytest.mark.parametrize(
    ("machine", "examples", "steps"), [(Mixed, 12, 25), (MixedOnThreeNodes, 4, 15), (MixedUnderKills, 12, 25)]
)
def test_programs_do_what_the_model_says(machine: type[Programs], examples: int, steps: int) -> None:
    run_programs(machine, examples, steps)

"""Replicas under seeded faults keep the properties of figure 3 of the paper, and agree once faults end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from replication.raft import MembershipChange, Ready
from replication.raft.election import Election
from replication.raft.state import ReplicaState
from tests.raft.checker import SafetyViolation
from tests.raft.memory_log import MemoryLog
from tests.raft.simulation import Faults, NoProgress, SimulatedNode, run_seed

BLOCKS, SEEDS_A_BLOCK = 10, 25
QUICK = 3
"""So many blocks are run by `make test`, the others by `make check`."""


@pytest.mark.parametrize(
    "block",
    [*range(QUICK), *(pytest.param(block, marks=pytest.mark.seeds) for block in range(QUICK, BLOCKS))],
)
def test_safety_and_agreement_under_faults(block: int) -> None:
    """Figure 3: election safety, log matching, leader completeness, state machine safety."""
    committed = leaders = 0
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        simulation = run_seed(seed)
        committed += len(simulation.checker.committed)
        leaders += len(simulation.checker.leaders)
    assert committed > 50 * SEEDS_A_BLOCK, "the simulated faults leave too little time to commit anything"
    assert leaders > 2 * SEEDS_A_BLOCK, "the simulated faults do not make leaders change"


def test_safety_and_agreement_on_a_terrible_network() -> None:
    """Every fifth message lost, every fifth late, every tenth twice."""
    for seed in range(25):
        run_seed(seed, faults=Faults(loss=0.2, duplicate=0.1, delay=0.2, incident_every_s=0.5))


LOST_DISKS = Faults(incidents="lose_disk crash partition pause compact transfer", incident_every_s=0.4)


def test_a_lost_disk_is_rebuilt_and_loses_nothing() -> None:
    """Disks are lost for good, one after the other; what was committed stays."""
    rebuilt = 0
    for seed in range(40):
        simulation = run_seed(seed, LOST_DISKS)
        rebuilt += sum(node.life > 1 and not node.rebuilding for node in simulation.nodes.values())
    assert rebuilt > 40


def first_violation(limit: int, faults: Faults | None = None, voters: str = "abc") -> str:
    """The checker's report of the first seed that breaks a promise."""
    for seed in range(limit):
        try:
            run_seed(seed, faults, voters)
        except SafetyViolation as violation:
            return str(violation)
        except NoProgress:
            continue
    raise AssertionError(f"{limit} seeds did not show the planted bug")


def test_the_checker_finds_a_vote_forgotten_on_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 2: votedFor is persistent state."""
    intact = MemoryLog.copy

    def forgetting(self: MemoryLog) -> MemoryLog:
        copied = intact(self)
        copied.set_hard_state(replace(copied.hard_state(), vote=None))
        return copied

    monkeypatch.setattr(MemoryLog, "copy", forgetting)
    first_violation(300, Faults(incident_every_s=0.15, incidents="crash crash partition campaign"))


def test_the_checker_finds_an_acknowledgement_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 2: persistent state is on stable storage before responding."""
    intact = SimulatedNode._carry_out

    def hasty(self: SimulatedNode, ready: Ready) -> None:
        ready.messages += ready.messages_after_sync
        ready.messages_after_sync = []
        intact(self, ready)

    monkeypatch.setattr(SimulatedNode, "_carry_out", hasty)
    first_violation(20)


@pytest.mark.interpreted
def test_the_checker_finds_a_membership_that_skips_the_joint_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thesis §4.3: with several voters changed at once, old and new majorities need not meet."""
    joint = MembershipChange.applied_to
    monkeypatch.setattr(
        MembershipChange,
        "applied_to",
        lambda self, current: replace(joint(self, current), outgoing=frozenset()),
    )
    first_violation(300, Faults(incident_every_s=0.15, incidents="change change partition campaign"))


@pytest.mark.interpreted
def test_the_checker_finds_a_vote_of_a_node_that_lost_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 2, persistent state: who lost it must not take part as if it had it."""
    monkeypatch.setattr(ReplicaState, "regain_vote", lambda self: setattr(self, "may_vote", True))
    first_violation(300, LOST_DISKS)


CHANGES_AND_LOST_DISKS = Faults(
    incidents="lose_disk lose_disk change change change campaign partition", incident_every_s=0.15
)


@pytest.mark.parametrize("voters", ["ab", "abc"])
def test_lost_disks_while_groups_of_two_grow_and_shrink_lose_nothing(voters: str) -> None:
    """A node that lost its disk votes for a candidate without which there is no majority."""
    committed = 0
    for seed in range(60):
        # Too many disks are lost at once for some groups: those stand still, but must not err.
        with suppress(NoProgress):
            committed += len(run_seed(seed, CHANGES_AND_LOST_DISKS, voters).checker.committed)
    assert committed > 1_000


def _in_every_majority_before(self: Election) -> bool:
    members = self._state.members.current
    before = members.outgoing or members.voters
    return self._state.node in before and len(before) <= 2


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("broken", "faults"),
    [
        pytest.param(lambda self: True, LOST_DISKS, id="for whoever asks"),
        pytest.param(_in_every_majority_before, CHANGES_AND_LOST_DISKS, id="during a change of voters"),
    ],
)
def test_the_checker_finds_a_vote_that_a_lost_disk_forbids(
    broken: Callable[[Election], bool], faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/decisions/0025: the candidate is in every majority, of the voters before a change as well."""
    monkeypatch.setattr(Election, "_in_every_majority", broken)
    first_violation(300, faults)

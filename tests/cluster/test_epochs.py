"""Branches of epochs are visible together, once, or never (F8)."""

from __future__ import annotations

from typing import Any

import pytest

from node.queue.epoch_operations import BranchName
from tests.cluster.sinks import Sink
from tests.inside import machine_of
from tests.site import Client, Site

pytestmark = pytest.mark.requirement("F8.4")

QUEUES = {"here": {}, "there": {"initial_owner": "n2"}, "local": {"queue_type": "classic"}}
LEDGER = "sink.s"
MESSAGES = [(queue, f"{queue} {number}".encode()) for queue in QUEUES for number in (1, 2)]
BODIES = [[f"{queue} {number}".encode() for number in (1, 2)] for queue in QUEUES]
NOTHING: list[list[bytes]] = [[] for _ in QUEUES]


class Epochs(Sink):
    """A sink with queues in several partitions, of which one is that of the ledger, and a client at n1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Site("n1", "n2", "n3", **options), LEDGER)
        self.client: Client = self.site.client("n1")
        self.client.declare(LEDGER)
        for queue, arguments in QUEUES.items():
            self.client.declare(queue, **arguments)
        partitions = {one.partition for one in self.site.nodes["n1"].broker.catalog.state.queues.values()}
        assert len(partitions) == 3

    def bodies(self) -> list[list[bytes]]:
        """Take what all queues have."""
        self.client = self.site.client("n3")
        return [self.client.bodies(queue) for queue in QUEUES]

    def restart(self, name: str) -> None:
        self.site.nodes[name].start()
        self.site.until(lambda: self.site.nodes[name].ready)

    def rest(self) -> None:
        self.site.until(self.at_rest)


@pytest.fixture
def epochs() -> Epochs:
    return Epochs()


def test_an_epoch_is_seen_at_its_commit_in_all_queues(epochs: Epochs) -> None:
    assert epochs.stage("n1", 0, (0, 7, 0), MESSAGES).answer == "staged"
    assert epochs.stage("n3", 0, (1, 9, 0), MESSAGES).answer == "staged"
    assert epochs.stage("n2", 0, (1, 8, 0), [("here", b"of an attempt that lost")]).answer == "staged"
    assert epochs.bodies() == NOTHING
    assert epochs.commit("n2", 0, (0, 7, 1), (1, 9, 1)).answer == "committed"
    assert epochs.bodies() == [bodies + bodies for bodies in BODIES]
    epochs.rest()


def test_a_commit_that_comes_again_does_nothing(epochs: Epochs) -> None:
    assert epochs.stage("n1", 3, (0, 1, 0), MESSAGES).answer == "staged"
    first, second = epochs.commit("n1", 3, (0, 1, 1)), epochs.commit("n3", 3, (0, 1, 1))
    assert (first.answer, second.answer) == ("committed", "committed")
    assert epochs.stage("n2", 3, (0, 2, 0), MESSAGES).answer == "committed"
    assert epochs.commit("n2", 3, (0, 2, 1)).answer == "committed"
    assert epochs.commit("n2", 1).answer == "committed"
    assert epochs.bodies() == BODIES
    epochs.rest()


def test_of_two_jobs_that_go_on_behind_one_epoch_one_is_refused(epochs: Epochs) -> None:
    """Each of them has the messages behind the epoch in its own batches."""
    assert epochs.stage("n1", 5, (0, 1, 0), MESSAGES).answer == "staged"
    assert epochs.stage("n3", 7, (0, 2, 0), MESSAGES).answer == "staged"
    first = epochs.commit("n1", 5, (0, 1, 1), after=-1)
    second = epochs.commit("n3", 7, (0, 2, 1), after=-1)
    answers = [first.answer, second.answer]
    # The later epoch has the messages of the earlier one, too.
    assert answers in (["committed", "overtaken"], ["committed", "committed"])
    committed = epochs.ledger(epochs.owner).committed
    assert epochs.bodies() == BODIES
    assert epochs.commit("n2", 9, after=-1).answer == "overtaken"
    assert epochs.commit("n2", 9, after=committed).answer == "committed"
    epochs.rest()


def test_an_abort_drops_an_epoch_and_touches_none_that_is_committed(epochs: Epochs) -> None:
    assert epochs.stage("n1", 0, (0, 1, 0), MESSAGES).answer == "staged"
    assert epochs.drop("n3", 0).answer == "dropped"
    epochs.rest()
    assert epochs.commit("n1", 0, (0, 1, 1)).answer == "missing"
    assert epochs.stage("n1", 0, (0, 1, 0), MESSAGES).answer == "staged"
    assert epochs.commit("n1", 0, (0, 1, 1)).answer == "committed"
    assert epochs.drop("n1", 0).answer == "committed"
    assert epochs.bodies() == BODIES
    epochs.rest()


def test_a_branch_that_is_posted_again_counts_once(epochs: Epochs) -> None:
    first, second = (epochs.stage(node, 0, (0, 1, 0), MESSAGES) for node in ("n1", "n2"))
    assert {first.answer, second.answer} == {"staged", "taken"}
    assert epochs.commit("n3", 0, (0, 1, 1)).answer == "committed"
    assert epochs.bodies() == BODIES
    epochs.rest()


def test_an_epoch_without_messages_is_committed(epochs: Epochs) -> None:
    assert epochs.commit("n1", 0).answer == "committed"
    assert epochs.stage("n1", 1, (0, 1, 0), []).answer == "staged"
    assert epochs.commit("n1", 1, (0, 1, 1)).answer == "committed"
    assert epochs.ledger(epochs.owner).committed == 1 and epochs.bodies() == NOTHING


@pytest.mark.parametrize("power", [False, True])
def test_branches_survive_the_loss_of_every_node(epochs: Epochs, power: bool) -> None:
    assert epochs.stage("n1", 0, (0, 1, 0), MESSAGES).answer == "staged"
    for name in ("n1", "n2", "n3"):
        epochs.site.nodes[name].stop(power=power)
        epochs.site.run(2.0)
        epochs.restart(name)
    assert epochs.commit("n2", 0, (0, 1, 1)).answer == "committed"
    assert epochs.bodies() == BODIES
    epochs.rest()


@pytest.mark.parametrize("moment", ["before", "logged", "told"])
def test_the_owner_of_the_ledger_dies_around_a_commit(epochs: Epochs, moment: str) -> None:
    """Before the commit's entry, between the entry and the answer, and when the answer is under way."""
    owner = epochs.owner
    other = next(name for name in epochs.site.nodes if name != owner)
    assert epochs.stage(other, 0, (0, 1, 0), MESSAGES).answer == "staged"
    asked = epochs.commit(other, 0, (0, 1, 1))
    if moment == "logged":
        epochs.site.until(lambda: epochs.ledger(owner).committed == 0, step_s=0.0001)
        assert not asked.told
    elif moment == "told":
        epochs.site.until(lambda: asked.told, step_s=0.0001)
    epochs.site.nodes[owner].stop(power=True)
    epochs.site.run(2.0)
    epochs.restart(owner)
    assert asked.answer == "committed"
    assert epochs.commit(owner, 0, (0, 1, 1)).answer == "committed"
    assert epochs.bodies() == BODIES
    epochs.rest()


def test_a_branch_whose_node_dies_before_it_is_staged_is_dropped(epochs: Epochs) -> None:
    other = next(name for name in epochs.site.nodes if name != epochs.owner)
    asked = epochs.stage(other, 0, (0, 1, 0), [("here", b"lost"), ("there", b"lost")])

    def prepared() -> bool:
        brokers = [node.broker for node in epochs.site.nodes.values()]
        return any(
            machine_of(one).transactions.prepared for broker in brokers for one in broker.owners.values()
        )

    epochs.site.until(prepared, step_s=0.0001)
    assert not asked.told and not epochs.ledger(epochs.owner).staged
    epochs.site.nodes[other].stop(power=True)
    epochs.site.run(2.0)
    epochs.restart(other)
    epochs.rest()
    assert not epochs.ledger(epochs.owner).staged and epochs.bodies() == NOTHING


def test_a_branch_waits_for_the_word_of_the_only_node_of_its_ledger() -> None:
    """The node is lost after it has staged the branch, and before the front end hears of that."""
    epochs = Epochs()
    epochs.client.delete(LEDGER)
    epochs.client.declare(LEDGER, queue_type="classic")
    assert epochs.owner == "n1"
    messages = [one for one in MESSAGES if one[0] != "local"]
    asked, ledger = epochs.stage("n3", 0, (0, 1, 0), messages), epochs.replica("n1")
    epochs.site.until(lambda: ledger._two_phase_commit.epochs._stepping, step_s=0.0001)
    mend = epochs.site.network.cut([("n1", "n3")])
    epochs.site.until(lambda: epochs.ledger("n1").staged)
    assert not asked.told
    epochs.site.nodes["n1"].stop(power=True)
    mend()
    assert asked.answer == 404
    epochs.restart("n1")
    assert epochs.stage("n2", 0, (0, 1, 0), messages).answer == "taken"
    assert epochs.commit("n2", 0, (0, 1, 1)).answer == "committed"
    assert epochs.bodies() == [*BODIES[:2], []]
    epochs.rest()


def test_branches_that_no_client_decides_end() -> None:
    epochs = Epochs(epoch_timeout_ms=5000)
    assert epochs.stage("n1", 0, (0, 1, 0), MESSAGES).answer == "staged"
    epochs.site.run(4.0)
    assert epochs.stage("n1", 0, (1, 1, 0), MESSAGES).answer == "staged"
    epochs.site.run(4.0)
    assert len(epochs.ledger(epochs.owner).staged[0]) == 2
    epochs.site.run(4.0)
    epochs.rest()
    told = epochs.site.nodes[epochs.owner].broker.overdue_epochs
    assert told.count == 1 and epochs.ledger(epochs.owner).staged == {}
    assert epochs.commit("n2", 0, (0, 1, 1)).answer == "missing"
    assert epochs.bodies() == NOTHING


def test_the_branches_of_a_ledger_that_is_deleted_are_dropped(epochs: Epochs) -> None:
    assert epochs.stage("n1", 0, (0, 1, 0), MESSAGES).answer == "staged"
    epochs.client.delete(LEDGER)
    epochs.rest()
    assert epochs.bodies() == NOTHING


def test_a_full_queue_refuses_a_branch(epochs: Epochs) -> None:
    epochs.client.declare("full", max_length=1, overflow="reject-publish")
    assert epochs.stage("n1", 0, (0, 1, 0), [("full", b"1")]).answer == "staged"
    assert epochs.stage("n1", 0, (1, 1, 0), [("full", b"2"), ("there", b"2")]).answer == "full"
    assert epochs.commit("n1", 0, (0, 1, 1)).answer == "committed"
    assert epochs.client.bodies("full") == [b"1"] and epochs.bodies() == NOTHING
    epochs.rest()


def test_snapshots_have_the_ledger(epochs: Epochs) -> None:
    """A node that was away while the log was cut short gets ledgers, staged branches and dropped ones so."""
    away = next(name for name in epochs.site.nodes if name != epochs.owner)
    assert epochs.stage("n1", 0, (0, 1, 0), MESSAGES).answer == "staged"
    assert epochs.commit("n1", 0, (0, 1, 1)).answer == "committed"
    machine = machine_of(epochs.replica(epochs.owner))
    assert epochs.stage(epochs.owner, 4, (2, 5, 3), MESSAGES).answer == "staged"
    again = type(machine)()
    again.restore(machine.snapshot())
    assert again.digest() == machine.digest()
    ledger = again.transactions.epochs.ledgers[epochs.definition.id]
    assert ledger.committed == 0 and list(ledger.staged[4]) == [BranchName(2, 5, 3)]
    epochs.site.nodes[away].stop(power=True)
    for number in range(200):
        epochs.client.publish(LEDGER, b"%4d" % number * 200)
    epochs.site.run(2.0)
    epochs.restart(away)
    epochs.site.until(
        lambda: epochs.replica(away).machine.digest() == machine_of(epochs.replica(epochs.owner)).digest()
    )
    assert list(epochs.ledger(away).staged[4]) == [BranchName(2, 5, 3)]

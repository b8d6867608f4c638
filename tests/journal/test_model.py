"""The journal against its model: crashes anywhere, on a disk that loses and tears unsynced writes."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from replication.journal import JournalConfig
from tests.journal.model import ModelledJournal

PARTITIONS = st.integers(0, 2)
SIZES = st.sampled_from((0, 3, 50, 300, 1500))


class JournalMachine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 1 << 16),
        segment_bytes=st.sampled_from((1024, 2048, 8192)),
        spares=st.integers(0, 2),
        cache_bytes=st.sampled_from((0, 600, 1 << 20)),
    )
    def begin(self, seed: int, segment_bytes: int, spares: int, cache_bytes: int) -> None:
        self.modelled = ModelledJournal(seed, JournalConfig(segment_bytes, spares, cache_bytes, 1000, 0.5))

    @rule(
        partition=PARTITIONS,
        back=st.integers(0, 4),
        sizes=st.lists(SIZES, min_size=1, max_size=4),
        new_term=st.booleans(),
    )
    def append(self, partition: int, back: int, sizes: list[int], new_term: bool) -> None:
        self.modelled.append(partition, back, sizes, new_term)

    @rule(
        partition=PARTITIONS,
        term=st.integers(0, 3),
        vote=st.sampled_from((None, "a", "bb")),
        commit=st.integers(0, 3),
    )
    def set_hard_state(self, partition: int, term: int, vote: str | None, commit: int) -> None:
        self.modelled.set_hard_state(partition, term, vote, commit)

    @rule(partition=PARTITIONS, back=st.integers(0, 3), share=st.sampled_from((0.0, 0.1, 0.5, 1.0)))
    def compact(self, partition: int, back: int, share: float) -> None:
        self.modelled.compact(partition, back, share)

    @rule(partition=PARTITIONS, ahead=st.integers(1, 3), sizes=st.lists(SIZES, min_size=1, max_size=4))
    def receive(self, partition: int, ahead: int, sizes: list[int]) -> None:
        self.modelled.receive(partition, ahead, sizes)

    @rule(partition=PARTITIONS)
    def abandon(self, partition: int) -> None:
        self.modelled.abandon(partition)

    @rule(partition=PARTITIONS, ahead=st.integers(0, 5))
    def install(self, partition: int, ahead: int) -> None:
        self.modelled.install(partition, ahead)

    @rule(partition=PARTITIONS)
    def drop(self, partition: int) -> None:
        self.modelled.drop(partition)

    @rule(budget=st.sampled_from((1, 500, 100_000)))
    def collect(self, budget: int) -> None:
        self.modelled.collect(budget)

    @rule()
    def take(self) -> None:
        self.modelled.take()

    @rule()
    def finish(self) -> None:
        self.modelled.finish()

    @rule()
    def commit(self) -> None:
        self.modelled.commit()
        self.modelled.check_accounts()

    @rule(operations=st.none() | st.integers(0, 8), power=st.booleans())
    def crash(self, operations: int | None, power: bool) -> None:
        self.modelled.crash(operations, power)

    @rule()
    def read(self) -> None:
        self.modelled.check()

    def teardown(self) -> None:
        if hasattr(self, "modelled"):
            self.modelled.commit()
            self.modelled.check()
            self.modelled.check_accounts()
            self.modelled.crash(None, power=True)
            self.modelled.check()


JournalMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True)


TestJournalMachine = JournalMachine.TestCase


def walk(seed: int, steps: int) -> None:
    """A long random walk, which reaches what a short example does not: segments freed in any order."""
    choose = random.Random(seed)
    modelled = ModelledJournal(
        seed,
        JournalConfig(
            segment_bytes=choose.choice((1024, 2048, 4096, 16384)),
            spare_segments=choose.choice((0, 1, 3)),
            cache_bytes=choose.choice((0, 600, 5000, 1 << 20)),
            read_ahead_bytes=choose.choice((100, 1000, 4096)),
            collect_share=choose.choice((0.3, 0.5, 0.9)),
        ),
    )
    partitions = choose.choice((1, 2, 4))
    for _ in range(steps):
        step(modelled, choose, choose.randrange(partitions))
        if choose.random() < 0.3:
            modelled.check()
    modelled.commit()
    modelled.check()
    modelled.check_accounts()
    modelled.crash(None, power=True)
    modelled.check()


def step(modelled: ModelledJournal, choose: random.Random, partition: int) -> None:
    kind = choose.choices(
        (
            "append",
            "hard state",
            "compact",
            "receive",
            "abandon",
            "install",
            "drop",
            "collect",
            "take",
            "finish",
            "commit",
            "crash",
        ),
        (35, 10, 10, 9, 2, 4, 3, 9, 6, 6, 11, 7),
    )[0]
    if kind == "append":
        sizes = [choose.choice((0, 3, 50, 300, 1500)) for _ in range(choose.randint(1, 4))]
        modelled.append(partition, choose.choice((0, 0, 0, 1, 2, 5)), sizes, choose.random() < 0.3)
    elif kind == "hard state":
        modelled.set_hard_state(
            partition, choose.randint(0, 3), choose.choice((None, "a", "bb")), choose.randint(0, 5)
        )
    elif kind == "compact":
        modelled.compact(partition, choose.choice((0, 0, 1, 3)), choose.choice((0.0, 0.1, 0.5, 1.0)))
    elif kind == "receive":
        sizes = [choose.choice((0, 3, 50, 300, 1500)) for _ in range(choose.randint(1, 4))]
        modelled.receive(partition, choose.choice((1, 1, 2, 4)), sizes)
    elif kind == "abandon":
        modelled.abandon(partition)
    elif kind == "install":
        modelled.install(partition, choose.choice((0, 1, 5)))
    elif kind == "drop":
        modelled.drop(partition)
    elif kind == "collect":
        modelled.collect(choose.choice((1, 500, 10000)))
    elif kind == "take":
        modelled.take()
    elif kind == "finish":
        modelled.finish()
    elif kind == "commit":
        modelled.commit()
        modelled.check_accounts()
    else:
        modelled.crash(choose.choice((None, 0, 1, 2, 3, 4, 6, 9)), choose.random() < 0.6)


def test_long_walks_end_in_a_state_that_was() -> None:
    for seed in range(150):
        walk(seed, 80)

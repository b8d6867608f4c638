"""The window of message ids against a plain dictionary, and its replicated part."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.queue.features.deduplication import Window
from node.queue.seen_ids import DIGEST_OCTETS, SeenIds, digest_of

NAMES = st.lists(st.sampled_from("abcdefgh"), max_size=6)
LENGTH = 100


class WindowAgainstDict(RuleBasedStateMachine):
    """Ids come, time passes and owners change: the owner's decisions follow from the replicated ids."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000
        self.came: dict[str, int] = {}
        self.seen = SeenIds()
        self.window = Window(LENGTH, None)

    @rule(names=NAMES)
    def come(self, names: list[str]) -> None:
        at = self.window.now(self.now)
        expected = []
        for name in names:
            fresh = name not in self.came or self.came[name] + LENGTH <= at
            expected.append(fresh)
            if fresh:
                self.came[name] = at
        digests = [digest_of(name.encode()) for name in names]
        assert self.window.fresh(digests, at) == expected
        self.seen.remember(at, b"".join(each for each, fresh in zip(digests, expected, strict=True) if fresh))

    @rule(passed=st.integers(0, LENGTH // 2) | st.integers(0, 3 * LENGTH))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule()
    def forget(self) -> None:
        before = self.window.slide(self.now)
        self.seen.forget(before)
        # The ids are forgotten for good, also where the next owner's clock is behind.
        self.came = {name: at for name, at in self.came.items() if at >= before}

    @rule(behind=st.sampled_from((0, 0, 7)))
    def change_owner(self, behind: int) -> None:
        """Change the owner; the new owner's clock may be behind the old one's."""
        self.now -= behind
        data = b"x" + self.seen.encode()
        self.seen, end = SeenIds.decode(data, 1)
        assert end == len(data)
        self.window = Window(LENGTH, self.seen)

    @invariant()
    def bounded(self) -> None:
        times, digests = self.seen.all()
        assert list(times) == sorted(times)
        assert len(times) == len(digests) == len(self.seen)
        assert len(self.window) <= len(self.came)


TestWindowAgainstDict = pytest.mark.requirement("X2.1")(WindowAgainstDict.TestCase)
TestWindowAgainstDict.settings = settings(max_examples=200, stateful_step_count=30)


def test_what_is_out_of_the_window_costs_nothing() -> None:
    window = Window(1000, None)
    for now in range(0, 100_000, 10):
        window.fresh([now.to_bytes(DIGEST_OCTETS, "little")], now)
    assert len(window) == 100
    assert len(window._digests) <= 300


def test_ids_cut_short_are_refused() -> None:
    seen = SeenIds()
    seen.remember(5, digest_of(b"a") + digest_of(b"b"))
    data = seen.encode()
    for end in (3, 10, len(data) - 1):
        with pytest.raises(ValueError, match="cut short"):
            SeenIds.decode(data[:end], 0)

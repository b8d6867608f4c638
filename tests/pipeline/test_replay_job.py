"""The decisions of the job replay: which messages it takes, how fast, and that none comes twice (F8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.jobs.replay import replay
from pipeline.log.sinks import Staged
from pipeline.options import OptionError
from pipeline.replay.job import (
    Counted,
    Replay,
    Replayed,
    ReplayError,
    StageTask,
    Target,
    count_messages,
    replay_messages,
    sink_of,
)
from pipeline.replay.pace import Pace
from pipeline.replay.selection import Selection, key_pattern
from pipeline.sources.message_log import MessageLog, Piece
from tests.pipeline.message_logs import KEYS, Numbered

pytestmark = pytest.mark.requirement("F8.8")


class Sinks:
    """Ledgers and a queue in memory. `lost`: the run is lost in front of a commit, or behind it."""

    def __init__(self) -> None:
        self.ledgers: dict[str, int] = {}
        self.staged: dict[tuple[int, int], list[int]] = {}
        self.queue: list[int] = []
        self.lost = ""
        self.dropped = 0

    def open(self, sink: str) -> int | None:
        self.dropped, self.staged = self.dropped + len(self.staged), {}
        return self.committed(sink)

    def committed(self, sink: str) -> int | None:
        return self.ledgers.get(sink)

    def commit(self, sink: str, epoch: int, staged: Sequence[Staged], after: int | None) -> bool:
        if self.lost == "before":
            raise ConnectionError
        if self.ledgers.get(sink) != after:
            return False
        for one in staged:
            self.queue += self.staged.pop((one.task, one.attempt))
        self.ledgers[sink] = epoch
        if self.lost == "behind":
            raise ConnectionError
        return True

    def stage(self, task: StageTask) -> Staged:
        attempt = len(self.staged) + 1000 * task.epoch
        self.staged[task.number, attempt] = list(range(task.piece.first, task.piece.end))
        return Staged(task.number, attempt, 1, task.piece.rows, 0)


def run(sinks: Sinks, source: Numbered, **wishes: Any) -> list[Replayed]:
    fields: dict[str, Any] = {"pace": Pace(None, float, _never), "batch_rows": 10} | wishes
    job = Replay(source, Selection(), Target("q"), sinks, **fields)
    return replay_messages(job, sinks.stage)


def _never(seconds: float) -> None:
    raise AssertionError(f"a pause of {seconds} s")


def test_a_replay_that_is_run_again_goes_on_behind_what_it_has_replayed() -> None:
    sinks, source = Sinks(), Numbered(a=25)
    (done,) = run(sinks, source)
    assert (done.messages, done.batches, done.skipped) == (25, 3, None)
    source.counts["a"] = 31
    (done,) = run(sinks, source)
    assert (done.messages, done.batches, done.skipped) == (6, 1, 25)
    assert sinks.queue == list(range(31))


@pytest.mark.parametrize(("lost", "dropped"), [("before", 1), ("behind", 0)])
def test_a_run_that_is_lost_at_a_commit(lost: str, dropped: int) -> None:
    sinks, source = Sinks(), Numbered(a=25)
    sinks.lost = lost
    with pytest.raises(ConnectionError):
        run(sinks, source)
    sinks.lost = ""
    source.counts["a"] = 27
    run(sinks, source, batch_rows=4)
    assert sinks.queue == list(range(27)) and sinks.dropped == dropped


def test_two_runs_at_a_time_are_refused() -> None:
    sinks, source = Sinks(), Numbered(a=25)

    def other(seconds: float) -> None:
        sinks.ledgers = {sink_of(source.logs()[0], Selection(), Target("q"), None): 17}

    with pytest.raises(ReplayError, match="another run replays a, too"):
        run(sinks, source, pace=Pace(1.0, float, other))
    assert sinks.queue == list(range(10))


def test_another_selection_or_target_is_another_replay() -> None:
    log = MessageLog("key", "log")
    ways = [
        (Selection(), Target("q"), None), (Selection(key="a"), Target("q"), None),
        (Selection(), Target("r"), None), (Selection(), Target(None, "q"), None),
        (Selection(), Target("q"), "named"), (Selection(key="a"), Target("r"), "named"),
    ]  # fmt: skip
    sinks = [sink_of(log, *way) for way in ways]
    assert len(set(sinks)) == 5 and sinks[4] == sinks[5] != sink_of(MessageLog("other", "log"), *ways[4])


def test_a_dry_run_counts_and_writes_nothing() -> None:
    sinks = Sinks()
    job = Replay(Numbered(a=25, b=5), Selection(), Target("q"), sinks, Pace(1.0, float, _never), None, 10)

    def count(piece: Piece) -> Counted:
        return Counted(piece.rows, 2 * piece.rows)

    found = [(one.log, one.batches, one.messages, one.octets) for one in count_messages(job, count)]
    assert found == [("a", 3, 25, 50), ("b", 1, 5, 10)]
    assert (sinks.queue, sinks.staged, sinks.ledgers) == ([], {}, {})


def test_a_rate_is_kept_over_any_time() -> None:
    now, paused = [50.0], list[float]()

    def pause(seconds: float) -> None:
        paused.append(seconds)
        now[0] += seconds

    pace = Pace(10.0, lambda: now[0], pause)
    for messages, meanwhile in ((20, 0.5), (20, 5.0), (5, 0.0), (1, 0.0)):
        pace.wait()
        pace.passed(messages)
        now[0] += meanwhile
    assert paused == [1.5, 0.5] and now[0] == 57.5


def test_the_pause_is_in_front_of_the_staging() -> None:
    sinks, source = Sinks(), Numbered(a=25)

    def pause(seconds: float) -> None:
        assert sinks.staged == {} and seconds == 1.0

    run(sinks, source, pace=Pace(10.0, float, pause))
    assert sinks.queue == list(range(25))


def taken(**wishes: Any) -> list[int]:
    piece = Piece(MessageLog("k", "a"), 0, 12, 12, ())
    selection = Selection(**wishes)
    (rows,) = Numbered(a=12).read(piece, selection.columns or ["raw"])
    return selection.takes(rows, 12)


def test_what_a_selection_takes() -> None:
    assert taken() == list(range(12)) == taken(queue="a") and taken(queue="b") == []
    assert taken(since=3000, before=6000) == [3, 4, 5]
    assert taken(before=3000) == [1, 2] and taken(since=8000) == [8, 9, 10, 11]
    assert taken(first="000000010000000000000003", last="000000010000000000000004") == [3, 4]
    assert taken(key="a.*.c") == [0, 1, 4, 5, 8, 9]
    assert taken(key="a", since=0) == [2, 6, 10]


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("#", set(KEYS)), ("a.#", {"a.b.c", "a.x.c", "a"}), ("a.#.c", {"a.b.c", "a.x.c"}),
        ("*", {"a", ""}), ("a.b.c.#", {"a.b.c"}), ("#.#", set(KEYS)), ("*.*", set[str]()), ("", {""}),
    ],
)  # fmt: skip
def test_keys_are_matched_as_bindings_of_topic_exchanges_match_them(pattern: str, keys: set[str]) -> None:
    assert {key for key in KEYS if key_pattern(pattern).fullmatch("." + key)} == keys


WRONG: dict[str, dict[str, str]] = {
    "the option toQeue is not known; toQueue is": {"toQeue": "q"},
    "a secret is no option, as plans and event logs show password": {"password": "p"},
    "one of archive, journals and topic says what to replay": {"topic": "t", "archive": "a"},
    "a topic is not replayed into itself": {"topic": "t"},
    "toQueue and toExchange": {"archive": "a", "toQueue": "q", "toExchange": "e"},
    "yesterday is no time": {"archive": "a", "since": "yesterday"},
    "xyz is no bookmark": {"archive": "a", "first": "xyz"},
    "rate is a number above 0, not fast": {"archive": "a", "rate": "fast"},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_PASSWORD", "p")
    with pytest.raises(OptionError, match=text):
        replay({"url": "http://127.0.0.1:1", "user": "u", **WRONG[text]})

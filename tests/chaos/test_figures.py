"""Figures and page of a small history whose figures can be reckoned by hand."""

from __future__ import annotations

from math import inf
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.checks import judge
from chaos.figures import Figures, Timeline
from chaos.history import Confirmed, Event, Faulted, Healed, LoadEnded, Published, Recovered, RunBegan
from chaos.ledger import Ledger
from chaos.page import page, seconds
from chaos.report import Verdict, read_history, write_history
from tests.chaos.histories import closing, delivered, in_time, opening, published

BEGAN = RunBegan(0.0, "kill", "quorate", "local", 7, 10.0, 1.0)


def run_of_ten_seconds() -> list[Event]:
    """A message each second; n1 is killed at 4.5, healed at 6.0 and well at 6.5; no confirm until 7.2."""
    sent: list[list[Event]] = [
        published(1, time=float(second), first=second) for second in (1, 2, 3, 4, 8, 9)
    ]
    late: list[Event] = [Published(5.0, "p", 5), Published(6.2, "p", 6), Confirmed(7.2, "p", 5, 6)]
    hurt: list[Event] = [Faulted(4.5, "n1", "killed", ("q",)), Healed(6.0, "killed"), Recovered(6.5, "n1")]
    got = delivered("b", 1, 2, 3, 4, 5, 6, 8, 9, time=9.5, settled=9.7)
    return [BEGAN, *in_time(opening(), *sent, late, hurt, got, [LoadEnded(10.0)], closing())]


def figures(events: list[Event]) -> Figures:
    ledger = Ledger.of(events)
    return Figures.of(ledger, judge(ledger))


def test_the_figures_of_a_run() -> None:
    found = figures(run_of_ten_seconds())
    assert (found.published, found.confirmed, found.refused, found.lost) == (8, 8, 0, 0)
    assert (found.redelivered, found.unexpected, found.promises) == (0, 0, {})
    assert found.longest_pause == pytest.approx(7.2 - 4.01)
    assert found.availability == pytest.approx(6 / 8)
    assert found.confirm_max == pytest.approx(2.2)


def test_the_figures_of_a_fault() -> None:
    [blow] = figures(run_of_ten_seconds()).blows
    assert (blow.kind, blow.nodes, blow.start, blow.healed, blow.end) == ("killed", ("n1",), 4.5, 6.0, 6.5)
    assert blow.next_confirm == pytest.approx(2.7)
    assert blow.ready == pytest.approx(0.5)
    assert blow.whole == pytest.approx(1.2)


def test_nodes_that_are_hurt_together_are_one_fault() -> None:
    events = [*run_of_ten_seconds(), Faulted(9.0, "n1", "late", ()), Faulted(9.0, "n2", "late", ())]
    assert [blow.nodes for blow in figures(events).blows] == [("n1",), ("n1", "n2")]
    assert figures(events).blows[1].ready == inf


def test_the_timeline_counts_by_the_second() -> None:
    timeline = Timeline.of(Ledger.of(run_of_ten_seconds()))
    assert timeline.start == 1.0
    assert timeline.published == (1, 1, 1, 1, 1, 1, 0, 1, 1)
    assert timeline.confirmed == (1, 1, 1, 1, 0, 0, 2, 1, 1)
    assert timeline.p50[3] == pytest.approx(0.01)
    assert timeline.p50[6] is None


def test_the_page_needs_nothing_else_and_shows_faults_and_broken_promises() -> None:
    events = [*run_of_ten_seconds(), *published(1, time=11.0, first=10)]
    ledger = Ledger.of(events)
    violations = judge(ledger)
    text = page(BEGAN, Figures.of(ledger, violations), Timeline.of(ledger), violations)
    assert "confirmed and lost: message 10 of p" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    drawings = [part.partition("</svg>")[0] + "</svg>" for part in text.split("<svg")[1:]]
    assert len(drawings) == 2
    for drawing in drawings:
        tree = ElementTree.fromstring("<svg" + drawing)
        assert [one.get("class") for one in tree.iter("rect")] == ["fault", "recovering"]
        assert len(list(tree.iter("path"))) >= 2


def test_a_verdict_is_the_same_when_its_history_is_judged_again(tmp_path: Path) -> None:
    verdict = Verdict.of(run_of_ten_seconds())
    assert "every promise was kept" in verdict.text
    again = Verdict.of(read_history(write_history(tmp_path, run_of_ten_seconds())))
    assert again == verdict
    assert verdict.write(tmp_path).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_history_of_no_run_has_no_verdict() -> None:
    with pytest.raises(ValueError, match="RunBegan"):
        Verdict.of(run_of_ten_seconds()[1:])


@pytest.mark.parametrize(("value", "text"), [(0.0123, "12 ms"), (3.14, "3.1 s"), (inf, "never")])
def test_seconds_are_written_with_as_many_digits_as_matter(value: float, text: str) -> None:
    assert seconds(value) == text

"""Pages of metrics: well formed, rendered in slices, once for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cluster.admin.http import pages
from cluster.admin.http.pages import LARGEST_DEBT_S, REST, BusyError, Pages, Rendering, Slices, rendered
from cluster.admin.metrics.exposition import SAMPLES, lines
from cluster.admin.metrics.metric import Metric, label_text, series, with_label

LABEL = st.text(st.characters(exclude_categories=["Cs"]))


@given(LABEL, LABEL, st.floats(allow_nan=False))
def test_any_label_and_value_is_read_as_it_was(first: str, second: str, value: float) -> None:
    once = series("quorate_x", "gauge", "A \\ help\nof two lines.", [{"a": first, "b": second}], [value])
    text = "".join(line for line in lines([once]) if line is not None)
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"a": first, "b": second}, value)
    assert with_label(label_text({"a": first}), "b", second) == label_text({"a": first, "b": second})


class Time:
    """A clock that every look at it moves on by `step` seconds."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step
        self.pauses: list[float] = []

    def clock(self) -> float:
        self.now += self.step
        return self.now

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def test_rendering_rests_when_a_slice_is_used_up() -> None:
    """Both within a metric of many samples, and where the work on the next one says that it may rest."""
    time = Time(step=pages.SLICE_S / 4)
    slices = Slices(pause=time.pause, clock=time.clock)
    samples = [(f'{{n="{number}"}}', 1.0) for number in range(64 * 40)]
    metrics = [None] * 40 + [Metric("a", "gauge", "A.", samples)]
    page = asyncio.run(rendered(lines(metrics), slices))
    assert len(time.pauses) >= 16
    assert set(time.pauses) == {pages.PAUSE_S}
    assert b"".join(page.pieces).count(b"\n") == 64 * 40 + 2
    assert page.size == sum(map(len, page.pieces))
    assert max(map(len, page.pieces)) < page.size / 4


def test_a_short_page_has_no_rests() -> None:
    time = Time()
    metric = Metric("a", "gauge", "A.", [("", 1.0)])
    asyncio.run(rendered(lines([metric]), Slices(pause=time.pause, clock=time.clock)))
    assert not time.pauses


class Renderer:
    """Renders a page that takes so many seconds of work, when it is let go on."""

    def __init__(self, work_s: float) -> None:
        self.work_s = work_s
        self.rendered = 0
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self) -> Rendering:
        self.asked.set()
        await self.go.wait()
        self.rendered += 1
        return Rendering((str(self.rendered).encode(),), self.work_s)


def test_all_who_ask_at_once_get_one_rendering() -> None:
    async def work() -> None:
        time, render = Time(), Renderer(0.1)
        pages = Pages(time.clock)
        asking = [asyncio.ensure_future(pages.page("a", render)) for _ in range(100)]
        await asyncio.sleep(0)
        asking[0].cancel()
        render.go.set()
        answers = await asyncio.gather(*asking[1:])
        assert {one.rendering.pieces for one in answers} == {(b"1",)}
        assert (await pages.page("a", render)).rendering.pieces == (b"1",)
        time.now += 0.1 * REST + 0.001
        assert (await pages.page("a", render)).rendering.pieces == (b"2",)

    asyncio.run(work())


def test_a_page_tells_when_its_rendering_began() -> None:
    """A client that reads a page after a change can see whether the page may be older than the change."""

    async def work() -> None:
        time, render = Time(), Renderer(0.1)
        pages = Pages(time.clock)
        asking = asyncio.ensure_future(pages.page("a", render))
        await render.asked.wait()
        time.now += 0.5
        render.go.set()
        assert (await asking).age_s == pytest.approx(0.5)
        time.now += 0.25
        assert (await pages.page("a", render)).age_s == pytest.approx(0.75)

    asyncio.run(work())


def test_rendering_takes_a_fortieth_of_the_time_for_all_who_ask() -> None:
    """Three pages of different weight, each asked for all the time."""

    async def work() -> None:
        time = Time()
        pages = Pages(time.clock)
        renderers = {name: Renderer(work) for name, work in (("a", 0.01), ("b", 0.2), ("c", 0.002))}
        for one in renderers.values():
            one.go.set()
        while time.now < 1000:
            for name, render in renderers.items():
                await pages.page(name, render)
            time.now += 0.01
        spent = sum(one.rendered * one.work_s for one in renderers.values())
        assert spent <= 1000 / REST * 1.05
        assert all(one.rendered > 20 for one in renderers.values())

    asyncio.run(work())


def test_pages_that_are_asked_for_once_each_are_refused_when_they_are_too_many() -> None:
    async def work() -> None:
        time, render = Time(), Renderer(0.5)
        render.go.set()
        pages = Pages(time.clock)
        with pytest.raises(BusyError) as refusal:
            for number in range(1000):
                await pages.page(number, render)
        assert render.rendered * 0.5 * REST <= LARGEST_DEBT_S + 0.5 * REST
        time.now += refusal.value.wait_s + 0.001
        await pages.page("later", render)

    asyncio.run(work())


def test_an_error_is_told_to_all_who_asked_and_tried_again() -> None:
    async def work() -> None:
        pages = Pages(Time().clock)
        good = Renderer(0.1)
        good.go.set()
        answers = await asyncio.gather(*(pages.page("a", failing) for _ in range(2)), return_exceptions=True)
        assert [type(one) for one in answers] == [OSError, OSError]
        assert (await pages.page("a", good)).rendering.pieces == (b"1",)

    async def failing() -> Rendering:
        raise OSError

    asyncio.run(work())


def test_metrics_are_read_while_they_are_rendered() -> None:
    """Counters are read a few samples at a time, and not all of them before the first rest."""
    read: list[int] = []

    def samples() -> Iterator[tuple[str, float]]:
        for number in range(3 * SAMPLES):
            read.append(number)
            yield "", float(number)

    rows = lines([Metric("a", "gauge", "A.", samples())])
    next(rows)
    assert read == []
    next(rows)
    assert read == list(range(SAMPLES))

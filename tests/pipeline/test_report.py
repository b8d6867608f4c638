"""The job report: what journals, and metrics, tell about queues (F8)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli.main import main
from node.message.reason import Reason
from node.queue.decision_format import encode_advance, encode_annotate, encode_refer, encode_remove
from node.queue.entry_format import (
    encode_batch,
    encode_drop_queue,
    encode_entry,
    encode_publish,
    encode_return,
    encode_settle,
)
from node.queue.operations import Aspect
from node.queue.subscriptions import Advance
from node.queue.transaction_format import encode_conclude, encode_prepared
from node.queue.transaction_operations import Prepared, TransactionKey
from pipeline.jobs.report import report
from pipeline.options import OptionError
from pipeline.report.durations import Durations
from pipeline.report.figures import QueueFigures, fairness_of
from pipeline.report.fold import PartitionFold
from pipeline.report.metrics import Sample, node_figures, quantile_of, queue_figures, samples_in
from pipeline.report.page import html_of, text_of
from tests.messages import content, run_of
from tests.pipeline.journals import put_down
from tests.site import Site

pytestmark = pytest.mark.requirement("F8.7")

WAIT_S = 2.0


class Life:
    """The journals of a cluster with a queue that has a history, and the numbers of its queues."""

    def __init__(self, directory: Path) -> None:
        site = Site("n1", "n2", "n3")
        client = site.client("n1")
        client.declare("grave")
        client.declare("h", history="7D", dead_letter_exchange="", dead_letter_routing_key="grave")
        client.declare_exchange("in", "topic")
        client.bind("h", "in", "#")
        client.confirms(client.publish("hot", *[b"x"] * 30, exchange="in"))
        client.confirms(client.publish("cold <&>", *[b"yy"] * 10, exchange="in"))
        site.run(WAIT_S)
        client.consume("h", "first", prefetch=30)
        site.until(lambda: len(client.deliveries) == 30)
        other = site.client("n1")
        other.consume("h", "second", prefetch=10)
        site.until(lambda: len(other.deliveries) == 10)
        site.run(WAIT_S)
        client.ack(client.deliveries[27], multiple=True)
        client.reject(client.deliveries[28], requeue=False)
        other.nack(other.deliveries[0], requeue=True)
        site.until(lambda: len(client.deliveries) + len(other.deliveries) == 41)
        site.until(lambda: client.depth("grave") == 1)
        site.run(1.0)
        # A node writes with the next entry that an entry is committed.
        client.confirms(client.publish("h", b"later"))
        client.confirms(client.publish("grave", b"later"))
        site.run(1.0)
        catalog = site.nodes["n1"].broker.catalog.state
        self.names = {one.id: name for (_, name), one in catalog.queues.items()}
        self.directories = put_down(site.nodes.values(), directory)

    @property
    def journals(self) -> str:
        return ";".join(map(str, self.directories))


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    yield Life(tmp_path_factory.mktemp("life"))


@pytest.fixture(scope="module")
def told(life: Life) -> dict[str, Any]:
    """The figures by the names of queues."""
    names = ";".join(f"{number}={name}" for number, name in life.names.items())
    found: dict[str, Any] = report({"journals": life.journals, "queueNames": names}).as_json()["queues"]
    return found


def test_publishes_and_ends_are_counted(told: dict[str, Any]) -> None:
    queue = told["h"]
    assert queue["published"] in (40, 41) and queue["octets"] > 40 * 20
    assert queue["ended"] == {"settled": 28, "moved": 1} and queue["redeliveries"] == 1
    assert queue["waiting"] == queue["published"] - 29
    assert queue["dead_letters"] == {"rejected": 1} and told["grave"]["published"] >= 1


def test_times_are_those_of_a_queue_with_a_history(told: dict[str, Any]) -> None:
    in_queue, settlement = told["h"]["time_in_queue"], told["h"]["settlement_latency"]
    assert (in_queue["messages"], settlement["messages"]) == (29, 28)
    for one in (in_queue, settlement):
        assert 2 * WAIT_S * 1000 <= one["p50_ms"] <= one["max_ms"] <= 2 * WAIT_S * 1000 * 1.2


def test_hot_keys_and_fairness(told: dict[str, Any]) -> None:
    hot = told["h"]["hot_keys"]
    assert [(one["routing_key"], one["messages"]) for one in hot[:2]] == [("hot", 30), ("cold <&>", 10)]
    assert told["h"]["consumers"] == 2
    # The message that came back, and perhaps the last one, were leased to one of both.
    assert 0.75 < told["h"]["fairness"] < fairness_of([30, 12])


def test_the_page_is_one_file_and_has_all_tables(life: Life, told: dict[str, Any]) -> None:
    made = report({"journals": life.journals})
    page = html_of(made)
    tags, texts = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            tags.append(tag)
            assert not {"src", "href"}.intersection(name for name, _ in attrs)

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Reader().feed(page)
    assert not {"script", "link", "img"}.intersection(tags) and "cold <&>" in texts
    titles = (
        "Queues", "Time in queue, ms", "Publish to settlement, ms", "How messages ended",
        "Dead letters by reason", "Fairness between consumers", "Hot keys",
    )  # fmt: skip
    assert all(title in texts for title in titles)
    text = text_of(made)
    assert all(f"\n\n{title}\n" in text for title in titles) and re.search(r"hot +\d+ +30 ", text)


def test_the_command_prints_tables_or_json_and_writes_a_page(life: Life, tmp_path: Path) -> None:
    places = [argument for one in life.directories for argument in ("--journal", str(one))]
    page = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["pipeline", "report", *places, f"--html={page}"])
    assert done.exit_code == 0 and "Hot keys" in done.output
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    done = CliRunner().invoke(main, ["pipeline", "report", *places, "--json"])
    assert json.loads(done.output)["queues"]
    done = CliRunner().invoke(main, ["pipeline", "report", "--jurnal=x"])
    assert done.exit_code == 2 and "--journal" in done.output
    assert CliRunner().invoke(main, ["pipeline", "report"]).exit_code == 2


def test_wrong_options_are_refused(life: Life) -> None:
    wrong = {
        "the option jurnals is not known; journals is": {"jurnals": "x"},
        "journals, url or both say what to report on": {},
        "onDamage is fail or report, not ignore": {"journals": life.journals, "onDamage": "ignore"},
        "queueNames has NUMBER=NAME with ; between, not h": {"journals": life.journals, "queueNames": "h"},
        "is no directory with a journal": {"journals": "/nothing"},
        "the option user is missing": {"url": "http://127.0.0.1:1"},
    }
    for text, options in wrong.items():
        with pytest.raises(OptionError, match=text):
            report(options)


# -- operations one by one -----------------------------------------------------------------------------


def fold_of(*batches: tuple[int, tuple[bytes, ...]]) -> PartitionFold:
    """A partition after entries of one batch each: the first number of its messages, and operations."""
    fold = PartitionFold()
    for first, operations in batches:
        fold.apply(encode_entry([encode_batch(7, 1, first, operations)]))
    return fold


def published(queue: int, count: int, key: str = "k") -> bytes:
    return b"".join(encode_publish(run_of([content(b"x")] * count, key=key), [queue]))


def arrived(queue: int, first: int, last: int, time: int) -> bytes:
    return encode_annotate(queue, Aspect.ARRIVAL, [(first, last, time)])


def figures_of(fold: PartitionFold, queue: int = 1) -> QueueFigures:
    return fold.finished()[queue]


def test_the_lag_of_readers_is_in_messages_that_are_there() -> None:
    fold = fold_of(
        (1, (published(1, 10),)), (0, (encode_advance(Advance(1, b"slow", 3)),)),
        (0, (encode_advance(Advance(1, b"gone", 2)), encode_advance(Advance(1, b"gone", 0)))),
        (0, (encode_advance(Advance(1, b"done", 10)), encode_remove(1, Reason.EXPIRED, [(1, 5)]))),
    )  # fmt: skip
    assert figures_of(fold).readers == {"slow": 5, "done": 0}
    assert figures_of(fold).ended == {"expired": 5}


def test_messages_of_streams_have_times() -> None:
    fold = fold_of(
        (1, (published(1, 4), arrived(1, 1, 4, 1000))),
        (5, (published(1, 1), arrived(1, 5, 5, 4000), encode_settle(1, [(2, 3)]))),
    )
    assert figures_of(fold).in_queue.as_json()["p50_ms"] == 3000
    assert figures_of(fold).in_queue.messages == 2 and figures_of(fold).waiting == 3


def test_a_message_ends_once_and_returns_only_while_it_is_there() -> None:
    fold = fold_of(
        (1, (published(1, 5),)), (0, (encode_settle(1, [(1, 2)]), encode_settle(1, [(2, 3)]))),
        (0, (encode_return(1, [(3, 4)], True),)), (0, (encode_settle(9, [(1, 2)]),)),
    )  # fmt: skip
    figures = figures_of(fold)
    assert (figures.ended, figures.returned, figures.waiting) == ({"settled": 3}, 1, 2)
    assert figures.settled == {(7, 0): 3} and figures_of(fold, 9).ended == {}


@pytest.mark.parametrize(("committed", "count"), [(True, 3), (False, 1)])
def test_messages_of_an_aborted_transaction_were_never_there(committed: bool, count: int) -> None:
    key = TransactionKey(7, 2)
    share = encode_prepared(Prepared(key, 1, ((1, 1, 2),), b""))
    fold = fold_of(
        (1, (published(1, 2), share)), (3, (published(1, 1),)), (0, (encode_conclude(key, committed),))
    )
    assert (figures_of(fold).published, figures_of(fold).waiting) == (count, count)


def test_messages_come_by_reference_and_go_with_their_queue() -> None:
    fold = fold_of(
        (1, (published(1, 5),)), (0, (encode_refer(2, 1, 2, 9),)), (0, (encode_refer(2, 1, 1, 3),)),
        (0, (encode_drop_queue(1),)),
    )  # fmt: skip
    assert (figures_of(fold, 2).published, figures_of(fold, 2).waiting) == (5, 5)
    assert figures_of(fold).ended == {"deleted with the queue": 5}


def test_durations_are_rounded_up_to_two_digits() -> None:
    durations = Durations()
    for value in (1, 99, 1234, -5):
        durations.add(value, 1)
    assert durations.counts == {1: 1, 99: 1, 1300: 1, 0: 1}
    assert [durations.quantile(part) for part in (0.25, 0.5, 0.75, 1.0)] == [0, 1, 99, 1300]
    assert Durations().quantile(0.5) is None


def test_many_keys_take_bounded_memory() -> None:
    figures = QueueFigures()
    for number in range(50_000):
        figures.key("hot" if number % 2 else f"key {number}", 1)
    assert len(figures.keys) <= 20_000 and figures.keys.most_common(1) == [("hot", 25_000)]


@pytest.mark.parametrize(("counts", "index"), [([5, 5, 5], 1.0), ([9, 0, 0], 0.3333), ([], 1.0)])
def test_fairness_is_jains_index(counts: list[int], index: float) -> None:
    assert fairness_of(counts) == index


# -- metrics -------------------------------------------------------------------------------------------

PAGE = """# HELP quorate_confirm_latency_seconds …
quorate_confirm_latency_seconds_bucket{le="0.001"} 50
quorate_confirm_latency_seconds_bucket{le="0.01"} 99.0
quorate_confirm_latency_seconds_bucket{le="+Inf"} 100
quorate_delivery_latency_seconds_bucket{le="+Inf"} 0
quorate_disk_free_bytes 1.5e+09
quorate_queue_messages_ready{queue="a \\"b\\"",vhost="/"} 7
quorate_queue_messages_leased{queue="a \\"b\\"",vhost="/"} 2
quorate_queue_messages_ready{queue="a \\"b\\"",vhost="other"} 1
not a sample
"""


def test_metrics_of_nodes_and_queues() -> None:
    samples = samples_in(PAGE)
    assert samples[0] == Sample("quorate_confirm_latency_seconds_bucket", {"le": "0.001"}, 50)
    assert node_figures(samples) == {
        "latency": {"confirm": {"p50_s": 0.001, "p99_s": 0.01}, "delivery": {"p50_s": None, "p99_s": None}},
        "disk_free_bytes": 1_500_000_000,
        "disk_free_limit_bytes": None,
    }
    assert queue_figures(samples) == {
        'a "b"': {"consumers": 0, "ready": 8, "leased": 2, "redelivered": 0, "dead_lettered": 0}
    }
    assert quantile_of(samples, "quorate_confirm_latency_seconds", 1.0) is None

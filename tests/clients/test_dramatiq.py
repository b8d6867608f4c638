"""dramatiq: tasks sent on one node and done by a worker on another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import Retries

from tests.processes.nodes import Cluster, Node, until

pytestmark = pytest.mark.clients

LEVELS = 10
DONE_S = 60.0


def broker(nodes: list[Node], queue: str) -> RabbitmqBroker:
    """A broker that uses the first of the nodes, and the next one when that is gone."""
    made = RabbitmqBroker(
        url=";".join(node.url + "%2F" for node in nodes),
        confirm_delivery=True,
        max_priority=LEVELS,
        middleware=[Retries(min_backoff=100, max_backoff=300)],
    )
    made.declare_queue(queue, ensure=True)
    return made


def waiting(of: RabbitmqBroker, queue: str) -> tuple[int, int, int]:
    """Messages in the queue, in the one of delayed messages, and in the one of dead letters."""
    found: tuple[int, int, int] = of.get_queue_message_counts(queue)
    return found


@contextmanager
def working(of: RabbitmqBroker, threads: int = 4) -> Iterator[None]:
    worker = dramatiq.Worker(of, worker_timeout=100, worker_threads=threads)
    worker.start()
    try:
        yield
    finally:
        worker.stop()
        of.close()


@pytest.mark.requirement("A24.8", "A24.9")
def test_retries_delays_and_dead_letters(node: Node, elsewhere: Node, name: str) -> None:
    runs: list[tuple[str, float]] = []
    sending, receiving = broker([node], name), broker([elsewhere], name)

    @dramatiq.actor(broker=receiving, queue_name=name, max_retries=2)
    def work(what: str) -> None:
        runs.append((what, time.time()))
        if what == "hopeless" or (what == "stubborn" and seen("stubborn") < 2):
            raise RuntimeError(what)

    def seen(what: str) -> int:
        return sum(one == what for one, _ in runs)

    began = time.time()
    for what in ("plain", "stubborn", "hopeless"):
        sending.enqueue(work.message(what))
    sending.enqueue(work.message("later"), delay=1000)
    assert waiting(sending, name) == (3, 1, 0)
    with working(receiving):
        until(lambda: len(runs) == 7, lambda: f"seven runs, not {runs}", DONE_S)
        until(lambda: waiting(sending, name) == (0, 0, 1), "one dead letter, and nothing left", DONE_S)
    assert [seen(what) for what in ("plain", "stubborn", "hopeless", "later")] == [1, 2, 3, 1]
    assert next(when for what, when in runs if what == "later") - began >= 1.0
    sending.close()


@pytest.mark.requirement("A20.1")
def test_priorities(node: Node, elsewhere: Node, name: str) -> None:
    sending, receiving = broker([node], name), broker([elsewhere], name)
    work: Any = dramatiq.actor(lambda what: None, broker=sending, actor_name="work", queue_name=name)
    for what, level in (("low", 1), ("middle", 5), ("none", 0), ("high", 9), ("middle-again", 5)):
        work.send_with_options(args=(what,), broker_priority=level)
    # A worker's own threads would mix them again.
    order = []
    taking = receiving.consume(name, prefetch=1)
    for message in taking:
        if message is None:
            break
        order.append(message.args[0])
        taking.ack(message)
    assert order == ["high", "middle", "middle-again", "low", "none"]
    taking.close()
    sending.close()
    receiving.close()


@pytest.mark.requirement("A21.1")
def test_a_node_killed_in_the_middle(own_cluster: Cluster, name: str) -> None:
    first, second, third = own_cluster.nodes
    sending, receiving = broker([third], name), broker([first, second], name)
    done: list[int] = []

    @dramatiq.actor(broker=receiving, queue_name=name)
    def work(number: int) -> None:
        time.sleep(0.02)
        done.append(number)

    def all_done(count: int) -> Callable[[], bool]:
        return lambda: len(set(done)) >= count

    for number in range(200):
        sending.enqueue(work.message(number))
    with working(receiving):
        until(all_done(50), "a quarter is done", DONE_S)
        first.kill()
        until(all_done(200), lambda: f"all done, not {len(set(done))}", DONE_S)
        until(lambda: waiting(sending, name) == (0, 0, 0), "all is acknowledged", DONE_S)
    sending.close()
    first.start()
    first.wait_ready()

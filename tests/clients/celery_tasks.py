"""The tasks that the workers of `test_celery.py` have; BROKER, BACKEND and TRACE are in the environment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

app = Celery("celery_tasks", broker=os.environ["BROKER"], backend=os.environ.get("BACKEND", "rpc://"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    result_expires=600,
    task_queues=[
        Queue("celery", Exchange("celery"), routing_key="celery"),
        Queue("ranked", Exchange("celery"), routing_key="ranked", queue_arguments={"x-max-priority": 10}),
    ],
    task_routes={"celery_tasks.ranked": {"queue": "ranked"}},
    worker_prefetch_multiplier=1,
)


def trace(line: str) -> None:
    """One line for a test to read; written with one call, so that processes do not mix theirs."""
    with Path(os.environ["TRACE"]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(bind=True)
def who(self: Any) -> str:
    """The worker's name."""
    return str(self.request.hostname)


@app.task
def broken(text: str) -> None:
    raise ValueError(text)


@app.task(bind=True, max_retries=3)
def stubborn(self: Any, countdown: float) -> int:
    """Fails twice, and asks to be tried again after `countdown` seconds."""
    trace(f"stubborn {self.request.id} {time.time()}")
    if self.request.retries < 2:
        raise self.retry(countdown=countdown)
    return int(self.request.retries)


@app.task
def when() -> float:
    return time.time()


@app.task
def ranked(name: str) -> str:
    trace(f"ranked {name}")
    return name


@app.task(acks_late=True, reject_on_worker_lost=True)
def slow(number: int, seconds: float) -> int:
    """A task that is acknowledged when it is done: if its worker is killed before, another worker gets it."""
    trace(f"began {number} {os.getpid()}")
    time.sleep(seconds)
    trace(f"ended {number} {os.getpid()}")
    return number

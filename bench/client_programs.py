"""Real clients as applications use them: python -m bench.client_programs pika-publish HOST:PORT QUEUE.

Each program does one thing for some seconds and prints one line of JSON. bench.clients runs the programs
with the interpreter that has the clients.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.brokers import busy_seconds, processor_seconds

BODY: Final = b"x" * 256
WINDOW: Final = 100
"""aio-pika's applications gather so many publishes, and pika's SelectConnection has so many on their way."""

PREFETCH: Final = 100
TASK: Final = "bench.nothing"
WARM_UP_S: Final = 0.5


@dataclass(slots=True)
class Meter:
    """Counts messages for `seconds`, after a warm-up. `brokers` are the broker's processes.

    `client`, `broker` and `others` of the result are the shares of a processor that the program, the broker
    and everything else on the machine had.
    """

    seconds: float
    brokers: Sequence[int] = ()
    messages: int = 0
    result: dict[str, float] = field(default_factory=dict)
    _created: float = 0.0
    _started: float = 0.0
    _used: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def more(self, messages: int = 1) -> bool:
        """Count the messages; False once the time is over."""
        now = time.monotonic()
        if not self._started:
            self._created = self._created or now
            if now - self._created >= WARM_UP_S:
                self._started, self._used = now, self._using()
            return True
        self.messages += messages
        elapsed = now - self._started
        if elapsed < self.seconds:
            return True
        if not self.result:
            client, broker, busy = (
                (after - before) / elapsed for before, after in zip(self._used, self._using(), strict=True)
            )
            others = max(0.0, busy - client - broker)
            self.result = {
                "rate": self.messages / elapsed, "client": client, "broker": broker, "others": others
            }  # fmt: skip
        return False

    def _using(self) -> tuple[float, float, float]:
        """Processor time of this process, of the broker and of the machine, in seconds."""
        return time.process_time(), sum(map(processor_seconds, self.brokers)), busy_seconds()


@dataclass(frozen=True, slots=True)
class Task:
    """The work of a program: where, with which queue, measured by which meter."""

    host: str
    port: int
    queue: str
    meter: Meter
    count: int

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}//"


# -- pika ---------------------------------------------------------------------------------------


def pika_channel(task: Task) -> Any:
    import pika

    return pika.BlockingConnection(pika.ConnectionParameters(task.host, task.port)).channel()


def pika_publish(task: Task) -> None:
    """Each publish waits for its confirm, as BlockingConnection does it."""
    import pika

    channel = pika_channel(task)
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    while task.meter.more():
        channel.basic_publish("", task.queue, BODY, persistent)
    channel.connection.close()


def pika_publish_ahead(task: Task) -> None:
    """A window of publishes, as a program with pika's callbacks does it."""
    import pika

    persistent = pika.BasicProperties(delivery_mode=2)
    published = confirmed = 0

    def fill(channel: Any) -> None:
        nonlocal published
        while published - confirmed < WINDOW:
            channel.basic_publish("", task.queue, BODY, persistent)
            published += 1

    def opened(channel: Any) -> None:
        def settled(frame: Any) -> None:
            nonlocal confirmed
            ack = frame.method
            done = ack.delivery_tag - confirmed if ack.multiple else 1
            confirmed += done
            if task.meter.more(done):
                fill(channel)
            else:
                connection.close()

        channel.confirm_delivery(settled, callback=lambda _: fill(channel))

    connection = pika.SelectConnection(
        pika.ConnectionParameters(task.host, task.port),
        on_open_callback=lambda made: made.channel(on_open_callback=opened),
        on_close_callback=lambda made, _: made.ioloop.stop(),
    )
    connection.ioloop.start()


def pika_consume(task: Task) -> None:
    """Each message is acknowledged by itself."""
    channel = pika_channel(task)
    channel.basic_qos(prefetch_count=PREFETCH)

    def received(channel: Any, method: Any, _: Any, __: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        if not task.meter.more():
            channel.stop_consuming()

    channel.basic_consume(task.queue, received)
    channel.start_consuming()
    channel.connection.close()


# -- aio-pika -----------------------------------------------------------------------------------


async def aio_pika_publish(task: Task) -> None:
    """A hundred publishes, and the next hundred when all of them are confirmed."""
    import aio_pika

    async with await aio_pika.connect(task.url) as connection:
        exchange = (await connection.channel()).default_exchange
        while task.meter.more(WINDOW):
            messages = [aio_pika.Message(BODY, delivery_mode=2) for _ in range(WINDOW)]
            await asyncio.gather(*(exchange.publish(message, task.queue) for message in messages))


async def aio_pika_consume(task: Task) -> None:
    """Each message is acknowledged by itself."""
    import aio_pika

    async with await aio_pika.connect(task.url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.get_queue(task.queue)
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    if not task.meter.more():
                        break


# -- Celery -------------------------------------------------------------------------------------


def celery_application(task: Task, *, confirms: bool = True, prefetch: int = 4) -> Any:
    from celery import Celery

    application = Celery("bench", broker=task.url, set_as_current=False)
    application.conf.update(
        broker_transport_options={"confirm_publish": confirms},
        task_default_queue=task.queue,
        task_default_queue_type="quorum",
        task_ignore_result=True,
        worker_concurrency=1,
        worker_prefetch_multiplier=prefetch,
        worker_redirect_stdouts=False,
    )
    return application


def celery_publish(task: Task) -> None:
    """Each task waits for its confirm, as Celery does it."""
    application = celery_application(task)
    while task.meter.more():
        application.send_task(TASK)


def celery_fill(task: Task) -> None:
    """So many tasks, which wait in the queue."""
    application = celery_application(task, confirms=False)
    for _ in range(task.count - 1):
        application.send_task(TASK)
    # The channel's last confirm comes after the broker has taken all that was sent before.
    celery_application(task).send_task(TASK)


def celery_consume(task: Task, prefetch: int = 4) -> None:
    """A worker with the pool that runs tasks in the worker's own process.

    kombu's loop may wait for the socket while acknowledgements are ready to be sent. The worker then rests
    for up to a second if all messages of its prefetch, 4 by default, have come.
    """
    from celery.worker import state

    application = celery_application(task, prefetch=prefetch)

    def nothing() -> None:
        if not task.meter.more():
            state.should_stop = os.EX_OK

    application.task(nothing, name=TASK)
    application.Worker(pool="solo", loglevel="ERROR", quiet=True).start()


PROGRAMS: Final[Mapping[str, Callable[[Task], None]]] = {
    "pika-publish": pika_publish,
    "pika-publish-ahead": pika_publish_ahead,
    "pika-consume": pika_consume,
    "aio-pika-publish": lambda task: asyncio.run(aio_pika_publish(task)),
    "aio-pika-consume": lambda task: asyncio.run(aio_pika_consume(task)),
    "celery-publish": celery_publish,
    "celery-fill": celery_fill,
    "celery-consume": celery_consume,
    "celery-consume-ahead": lambda task: celery_consume(task, PREFETCH),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("address")
    parser.add_argument("queue")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--broker", type=int, action="append", default=[], help="a process of the broker")
    asked = parser.parse_args()
    host, _, port = asked.address.rpartition(":")
    meter = Meter(asked.seconds, asked.broker)
    PROGRAMS[asked.program](Task(host, int(port), asked.queue, meter, asked.count))
    print(json.dumps(meter.result), flush=True)


if __name__ == "__main__":
    main()

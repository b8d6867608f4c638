"""pika's blocking connection: a work queue and remote procedure calls, on each node in turn."""

from __future__ import annotations

import threading
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.processes.nodes import Node

COUNT = 200


@pytest.mark.requirement("A17.1", "A17.4", "A17.6", "A17.9", "F2.1")
def test_a_work_queue_with_publisher_and_worker_on_two_nodes(node: Node, elsewhere: Node, name: str) -> None:
    with node.connect() as sending, elsewhere.connect() as working:
        publisher = sending.channel()
        publisher.confirm_delivery()
        publisher.queue_declare(name, durable=True)
        for number in range(COUNT):
            properties = pika.BasicProperties(delivery_mode=2, headers={"number": number}, priority=1)
            publisher.basic_publish("", name, b"task %d" % number, properties, mandatory=True)
        worker = working.channel()
        worker.basic_qos(prefetch_count=20)
        done: list[tuple[int, bytes]] = []
        for method, properties, body in worker.consume(name, inactivity_timeout=10.0):
            assert method is not None, f"only {len(done)} came"
            done.append((properties.headers["number"], body))
            worker.basic_ack(method.delivery_tag)
            if len(done) == COUNT:
                break
        worker.cancel()
        assert done == [(number, b"task %d" % number) for number in range(COUNT)]
        assert worker.queue_delete(name).method.message_count == 0


def test_calls_answered_in_a_thread_of_another_connection(node: Node, elsewhere: Node, name: str) -> None:
    serving = elsewhere.connect()
    server = serving.channel()
    server.queue_declare(name, exclusive=False, auto_delete=True)

    def answer(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        reply = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, body.upper(), reply)
        channel.basic_ack(method.delivery_tag)

    server.basic_consume(name, answer)
    thread = threading.Thread(target=server.start_consuming)
    thread.start()
    try:
        with node.connect() as connection:
            caller = connection.channel()
            replies = caller.queue_declare("", exclusive=True).method.queue
            for word in ("one", "two", "three"):
                properties = pika.BasicProperties(reply_to=replies, correlation_id=word)
                caller.basic_publish("", name, word.encode(), properties, mandatory=True)
            answers: list[tuple[str, bytes]] = []
            for method, properties, body in caller.consume(replies, auto_ack=True, inactivity_timeout=10.0):
                assert method is not None, f"only {answers} came"
                answers.append((properties.correlation_id, body))
                if len(answers) == 3:
                    break
            assert answers == [("one", b"ONE"), ("two", b"TWO"), ("three", b"THREE")]
    finally:
        serving.add_callback_threadsafe(server.stop_consuming)
        thread.join(10.0)
        serving.close()

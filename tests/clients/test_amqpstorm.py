"""amqpstorm: a connection with its own reading thread, frames cut to the last octet of what was agreed."""

from __future__ import annotations

import threading

import pytest
from amqpstorm import AMQPChannelError, AMQPMessageError, Connection, Message

from tests.processes.nodes import Node


def connect(node: Node) -> Connection:
    return Connection(node.amqp.host, "guest", "guest", port=node.amqp.port, timeout=10)


@pytest.mark.requirement("A17.1", "A17.4", "A17.6", "A17.9", "A23.1", "F2.1")
def test_confirmed_messages_of_many_frames(node: Node, elsewhere: Node, name: str) -> None:
    with connect(node) as sending, connect(elsewhere) as reading:
        publisher = sending.channel()
        publisher.confirm_deliveries()
        publisher.queue.declare(name, durable=True)
        # Three whole frames: this client cuts bodies at frame-max, which makes frames 8 octets too long.
        bodies = ["x" * (3 * sending.max_frame_size), "grün", "short"]
        for body in bodies:
            message = Message.create(publisher, body, {"message_id": str(len(body)), "delivery_mode": 2})
            assert message.publish(name, mandatory=True)
        consumer = reading.channel()
        consumer.basic.qos(1)
        got: list[tuple[str, str]] = []

        def take(message: Message) -> None:
            got.append((message.message_id, message.body))
            message.ack()
            if len(got) == len(bodies):
                consumer.stop_consuming()

        consumer.basic.consume(take, name)
        consumer.start_consuming()
        assert got == [(str(len(body)), body) for body in bodies]
        assert consumer.queue.delete(name)["message_count"] == 0


@pytest.mark.requirement("A10.1", "A17.2")
def test_refusals_and_returns_are_exceptions(node: Node, name: str) -> None:
    with connect(node) as connection:
        channel = connection.channel()
        channel.confirm_deliveries()
        with pytest.raises(AMQPMessageError):
            channel.basic.publish("lost", f"{name}-absent", mandatory=True)
        with pytest.raises(AMQPChannelError) as refused:
            channel.queue.declare(f"{name}-absent", passive=True)
        assert refused.value.error_code == 404
        assert connection.channel().queue.declare("", exclusive=True)["queue"]


def test_channels_of_one_connection_in_threads(node: Node, name: str) -> None:
    failures: list[BaseException] = []

    def work(connection: Connection, number: int) -> None:
        try:
            with connection.channel() as channel:
                queue = channel.queue.declare(f"{name}-{number}", exclusive=True)["queue"]
                channel.confirm_deliveries()
                for count in range(20):
                    channel.basic.publish(str(count), queue)
                bodies = [channel.basic.get(queue, no_ack=True).body for _ in range(20)]
                assert bodies == [str(count) for count in range(20)]
        except BaseException as error:
            failures.append(error)

    with connect(node) as connection:
        threads = [threading.Thread(target=work, args=(connection, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)
    assert not failures, failures

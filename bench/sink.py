"""A broker that only answers: python -m bench.sink [--port 5999].

The sink routes, stores and replicates nothing. It answers each method, confirms each publish at once, and
delivers one message again and again: the first that was published with the queue's name as routing key.
A client's rate against the sink is the rate of the client alone. One thread a connection reads and writes
a blocking socket: a lone message costs two system calls there, fewer than on an event loop.
"""

from __future__ import annotations

import argparse
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from struct import Struct
from typing import Any, Final, NamedTuple

from cluster.config.identity import RABBITMQ, server_properties
from cluster.process.time_slice import ask_for_time_slice
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import FRAME, HEARTBEAT, decode_method, encode_frame, encode_method
from node.wire.amqp091.fields import Table
from node.wire.amqp091.lifecycle import CAPABILITIES
from node.wire.amqp091.primitives import Method

RECEIVE_OCTETS: Final = 1 << 18
FRAME_MAX: Final = 131_072
"""As nodes and RabbitMQ have it."""

TIME_SLICE_US: Final = 100
"""As a node asks for: on a busy machine the sink has its turn as soon as a node has."""

UNLIMITED: Final = 1000
"""So many messages are on their way to a consumer that has set no prefetch."""

_PUBLISH: Final = b"\x00\x3c\x00\x28"
_ACK: Final = b"\x00\x3c\x00\x50"
_REJECT: Final = b"\x00\x3c\x00\x5a"
_NACK: Final = b"\x00\x3c\x00\x78"
_SETTLEMENTS: Final = frozenset((_ACK, _REJECT, _NACK))

_BODY_SIZE: Final = Struct(">Q")
_TAG: Final = Struct(">Q")
_SETTLEMENT: Final = Struct(">QB")
_CONFIRM: Final = Struct(">BHIHHQBB")
_OVERHEAD: Final = FRAME.size + 1
_SIZE_IN_HEADER: Final = 4

_names = count(1)

_ANSWERS: Final[Mapping[type[Method], Callable[[Any], Method]]] = {
    m.ConnectionStartOk: lambda _: m.ConnectionTune(2047, FRAME_MAX, 60),
    m.ConnectionOpen: lambda _: m.ConnectionOpenOk(),
    m.ConnectionClose: lambda _: m.ConnectionCloseOk(),
    m.ChannelOpen: lambda _: m.ChannelOpenOk(),
    m.ChannelClose: lambda _: m.ChannelCloseOk(),
    m.ChannelFlow: lambda asked: m.ChannelFlowOk(asked.active),
    m.ExchangeDeclare: lambda _: m.ExchangeDeclareOk(),
    m.ExchangeDelete: lambda _: m.ExchangeDeleteOk(),
    m.ExchangeBind: lambda _: m.ExchangeBindOk(),
    m.ExchangeUnbind: lambda _: m.ExchangeUnbindOk(),
    m.QueueDeclare: lambda asked: m.QueueDeclareOk(asked.queue or f"sink-{next(_names)}", 0, 0),
    m.QueueBind: lambda _: m.QueueBindOk(),
    m.QueueUnbind: lambda _: m.QueueUnbindOk(),
    m.QueuePurge: lambda _: m.QueuePurgeOk(0),
    m.QueueDelete: lambda _: m.QueueDeleteOk(0),
    m.BasicQos: lambda _: m.BasicQosOk(),
    m.BasicConsume: lambda asked: m.BasicConsumeOk(asked.consumer_tag),
    m.BasicCancel: lambda asked: m.BasicCancelOk(asked.consumer_tag),
    m.BasicGet: lambda _: m.BasicGetEmpty(),
    m.BasicRecover: lambda _: m.BasicRecoverOk(),
    m.ConfirmSelect: lambda _: m.ConfirmSelectOk(),
}
"""The answer to each method that has one."""


class Contents:
    """The first message of each routing key: content header and body."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[bytes, bytes]] = {}
        self._known: set[bytes] = set()

    def knows(self, target: bytes) -> bool:
        """Whether a message was published with these arguments of basic.publish before."""
        return target in self._known

    def keep(self, target: bytes, header: bytes, body: bytes) -> None:
        self._known.add(target)
        publish = decode_method(_PUBLISH + target)
        assert isinstance(publish, m.BasicPublish)
        self._first.setdefault(publish.routing_key, (header, body))

    def of(self, queue: str) -> tuple[bytes, bytes] | None:
        return self._first.get(queue)


class Consumer:
    """The frames of a delivery, before and after the delivery tag."""

    def __init__(self, channel: int, tag: str, queue: str, content: tuple[bytes, bytes]) -> None:
        header, body = content
        frame = encode_method(channel, m.BasicDeliver(tag, 0, False, "", queue))
        at = FRAME.size + len(_ACK) + 1 + len(tag.encode())
        self.before = frame[:at]
        pieces = [frame[at + _TAG.size :], encode_frame(m.FRAME_HEADER, channel, header)]
        step = FRAME_MAX - _OVERHEAD
        for start in range(0, len(body), step):
            pieces.append(encode_frame(m.FRAME_BODY, channel, body[start : start + step]))
        self.after = b"".join(pieces)


class Channel:
    """One channel: its publishes without a confirm, its consumers and their unsettled deliveries."""

    def __init__(self, number: int, contents: Contents) -> None:
        self._number = number
        self._contents = contents
        self._target = b""
        self._pieces: list[bytes] | None = None
        self._left = 0
        self._published = 0
        self._confirmed = 0
        self._confirms = False
        self._prefetch = 0
        self._consumers: dict[str, Consumer] = {}
        self._next_tag = 1
        self._unsettled: set[int] = set()

    def publish(self, target: bytes) -> None:
        self._target = target
        self._pieces = None if self._contents.knows(target) else []

    def header(self, payload: bytes) -> None:
        (self._left,) = _BODY_SIZE.unpack_from(payload, _SIZE_IN_HEADER)
        if self._pieces is not None:
            self._pieces.append(payload)
        if not self._left:
            self._complete()

    def body(self, payload: bytes) -> None:
        self._left -= len(payload)
        if self._pieces is not None:
            self._pieces.append(payload)
        if self._left <= 0:
            self._complete()

    def _complete(self) -> None:
        self._published += self._confirms
        if self._pieces is not None:
            self._contents.keep(self._target, self._pieces[0], b"".join(self._pieces[1:]))

    def published_again(self) -> None:
        """One more message, with a target that is known."""
        self._published += self._confirms

    def settle(self, tag: int, multiple: bool) -> None:
        if not multiple:
            self._unsettled.discard(tag)
        elif tag:
            self._unsettled = {left for left in self._unsettled if left > tag}
        else:
            self._unsettled.clear()

    def take(self, method: Method) -> None:
        """Apply the method to the messages to come."""
        match method:
            case m.ConfirmSelect():
                self._confirms = True
            case m.BasicQos():
                self._prefetch = method.prefetch_count
            case m.BasicConsume():
                self._consume(method)
            case m.BasicCancel():
                self._consumers.pop(method.consumer_tag, None)

    def _consume(self, method: m.BasicConsume) -> None:
        """A consumer without acknowledgements gets nothing, as nothing would hold the deliveries back."""
        content = self._contents.of(method.queue)
        if content is not None and not method.no_ack:
            tag = method.consumer_tag
            self._consumers[tag] = Consumer(self._number, tag, method.queue, content)

    def answers(self, out: list[bytes]) -> None:
        """Append the confirm of all that was published, and as many deliveries as the prefetch allows."""
        if self._published > self._confirmed:
            multiple = self._published - self._confirmed > 1
            self._confirmed = tag = self._published
            out.append(_CONFIRM.pack(m.FRAME_METHOD, self._number, 13, 60, 80, tag, multiple, m.FRAME_END))
        if self._consumers:
            for consumer in self._consumers.values():
                free = (self._prefetch or UNLIMITED) - len(self._unsettled)
                tags = range(self._next_tag, self._next_tag + max(0, free))
                for tag in tags:
                    out += (consumer.before, _TAG.pack(tag), consumer.after)
                self._unsettled.update(tags)
                self._next_tag = tags.stop


class Alike(NamedTuple):
    """Publishes that differ only in their bodies, which the sink counts by their first octets."""

    head: bytes
    octets: int
    channel: int


_NONE_ALIKE: Final = Alike(b"\0", 0, 0)
"""No frame begins so."""


def alike(data: bytes, at: int, after_method: int) -> Alike | None:
    """Those like the publish at `at`; None where its body is not one frame, or has not come yet."""
    begun = after_method + FRAME.size
    if begun + _SIZE_IN_HEADER + _BODY_SIZE.size > len(data):
        return None
    _, number, size = FRAME.unpack_from(data, after_method)
    (octets,) = _BODY_SIZE.unpack_from(data, begun + _SIZE_IN_HEADER)
    body = begun + size + 1
    head = data[at : body + FRAME.size]
    if not 0 < octets < FRAME_MAX or not head.endswith(FRAME.pack(m.FRAME_BODY, number, octets)):
        return None
    return Alike(head, len(head) + octets + 1, number)


class Connection:
    """One client."""

    def __init__(self, client: socket.socket, contents: Contents) -> None:
        self._socket = client
        self._contents = contents
        self._channels: dict[int, Channel] = {}
        self._touched: set[Channel] = set()
        self._out: list[bytes] = []
        self._open = True
        self._alike = _NONE_ALIKE

    def serve(self) -> None:
        """Until the client goes."""
        with self._socket, suppress(ConnectionError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.recv(8, socket.MSG_WAITALL)
            properties: Table = {**server_properties(RABBITMQ, "sink", "sink")}
            properties["capabilities"] = {**CAPABILITIES}
            self._socket.sendall(encode_method(0, m.ConnectionStart(0, 9, properties)))
            rest = b""
            while self._open and (data := self._socket.recv(RECEIVE_OCTETS)):
                data = rest + data if rest else data
                rest = data[self._take(data) :]
                for channel in self._touched:
                    channel.answers(self._out)
                if self._out:
                    self._socket.sendall(b"".join(self._out))
                    self._out.clear()
                self._touched.clear()

    def _take(self, data: bytes) -> int:
        """All whole frames; how many octets they are."""
        at, stop = 0, len(data)
        while stop - at >= _OVERHEAD:
            if data.startswith(self._alike.head, at) and at + self._alike.octets <= stop:
                at += self._alike.octets
                self._reached(self._alike.channel).published_again()
                continue
            kind, number, size = FRAME.unpack_from(data, at)
            end = at + size + _OVERHEAD
            if end > stop:
                break
            payload = data[at + FRAME.size : end - 1]
            if kind == m.FRAME_METHOD:
                if payload.startswith(_PUBLISH) and self._contents.knows(payload[4:]):
                    self._alike = alike(data, at, end) or self._alike
                self._method(number, payload)
            elif kind == m.FRAME_HEADER:
                self._reached(number).header(payload)
            elif kind == m.FRAME_BODY:
                self._reached(number).body(payload)
            else:
                self._out.append(HEARTBEAT)
            at = end
        return at

    def _reached(self, number: int) -> Channel:
        """The channel, which may have answers at the end of the turn."""
        channel = self._channels[number]
        self._touched.add(channel)
        return channel

    def _method(self, number: int, payload: bytes) -> None:
        ids = payload[:4]
        if ids == _PUBLISH:
            self._reached(number).publish(payload[4:])
        elif ids in _SETTLEMENTS:
            tag, bits = _SETTLEMENT.unpack_from(payload, 4)
            self._reached(number).settle(tag, bool(bits & 1) and ids != _REJECT)
        else:
            self._answer(number, decode_method(payload))

    def _answer(self, number: int, method: Method) -> None:
        if isinstance(method, m.BasicConsume) and not method.consumer_tag:
            method.consumer_tag = f"sink-{next(_names)}"
        answer = _ANSWERS.get(type(method))
        if answer is not None and not getattr(method, "nowait", False):
            self._out.append(encode_method(number, answer(method)))
        match method:
            case m.ChannelOpen():
                self._channels[number] = Channel(number, self._contents)
            case m.ChannelClose():
                self._touched.discard(self._channels.pop(number))
            case m.ConnectionClose():
                self._open = False
            case _ if number in self._channels:
                self._reached(number).take(method)


def listen(port: int) -> socket.socket:
    """A socket on loopback; any free port where `port` is 0."""
    return socket.create_server(("127.0.0.1", port))


def serve(listener: socket.socket) -> None:
    """Each connection in a thread of its own, until the listener is closed."""
    contents = Contents()
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=Connection(client, contents).serve, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    listener = listen(parser.parse_args().port)
    ask_for_time_slice(TIME_SLICE_US)
    print(f"{listener.getsockname()[1]}", flush=True)
    serve(listener)


if __name__ == "__main__":
    main()

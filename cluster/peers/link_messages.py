"""The one interface between a front end and a partition's owner, and how its calls go from node to node.

The two may be in one process or on two nodes. Every call names the link's epoch. A front end starts a new
epoch whenever it greets an owner: the receiver of a call can tell that the call was made before a failover or
before a message was lost.

Between nodes a call is a message: an envelope part (tag, call, partition, front end, epoch), a msgpack part
with the arguments, and the message contents as parts of their own, so that no body is copied or parsed. Link
traffic is most of the traffic between nodes: the methods of the two ports are its typed form, and no message
is an object.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, cast

import msgpack

from cluster.peers.consumer_terms import ConsumerTerms, terms_from_plain, terms_to_plain
from cluster.peers.held_leases import TELLS_NOTHING, HeldLeases, TellsLeases
from cluster.peers.tags import TO_FRONT_END, TO_OWNER
from node.delivery.settlements import NO_TOKEN
from node.message.run import OWN_METHODS, Run
from node.queue.leasing import UNTOLD
from node.wire.formats import FORMATS
from replication.forms import expect
from replication.raft import MessageError

Ranges = list[tuple[int, int]]
"""Closed ranges of sequence numbers, ascending."""

GET_LINK: Final = 1
GET_LINK_NO_ACK: Final = 2
GET_LINK_KEPT: Final = 3
"""The link of gets without acknowledgement whose front end has the message removed once it has got the
message. A delivery names `GET_LINK` if the message is leased until then, and `GET_LINK_NO_ACK` if it is
removed already.
"""
FIRST_CONSUMER: Final = 16
"""The lowest number of a front end's consumer; lower numbers are the links of basic.get."""

NOT_FOUND: Final = [404, "the queue was deleted"]
ACCESS_REFUSED: Final = [403, "the queue is in exclusive use"]
TOO_MANY_FILTERS: Final = [506, "the consumers of the queue have too many different filters"]
TAKEN_OUT_FIRST: Final = [406, "the queue removes messages before it delivers them"]
TOO_MANY_SUBSCRIPTIONS: Final = [506, "the stream has too many subscriptions"]
"""The answer of an owner that refuses: a 0-9-1 reply code and its reason."""

NOTHING_TO_GET: Final = (0, False)
"""The first arguments of a request that an owner of the release before does not know. Such an owner takes the
request for a basic.get of the first argument, which is a queue that does not exist.
"""

JUST_CREATED: Final = 1
"""The second argument of a count: a declaration of the asking client has created the queue. So any state
since then is a right answer, and the owner need not have a majority confirm that it leads. An owner of the
release before ignores the argument.
"""

STAYS_LEASED: Final = 1
"""The third argument of a get without acknowledgement whose message stays leased, see `GET_LINK_KEPT`."""

FOR_LINK: Final = 0
"""The first item of the answer to an attach where the owner keeps messages for the consumer's link. The
second one has the messages that the link has had before, and has not settled.
"""

UNREACHABLE: Final = [404, "the node that holds the queue is down"]
"""The front end's own answer to requests for a queue whose only node is down."""


@dataclass(init=False, slots=True)
class Delivery:
    """Messages of one queue for one consumer. `ranges` has their sequence numbers, in the run's order.
    `token` is that of the lease; NO_TOKEN where the queue's leases have none, or a node of the cluster is of
    a release that knows no tokens. `until` is the end of the lease in milliseconds since the epoch, by the
    owner's clock; UNTOLD where the lease has none, or a node knows none.
    """

    consumer: Final[int]
    queue: Final[int]
    ranges: Final[Ranges]
    redelivered: Final[bool]
    run: Final[Run]
    token: Final[int]
    until: Final[int]

    def __init__(
        self,
        consumer: int,
        queue: int,
        ranges: Ranges,
        redelivered: bool,
        run: Run,
        token: int = NO_TOKEN,
        until: int = UNTOLD,
    ) -> None:
        self.consumer = consumer
        self.queue = queue
        self.ranges = ranges
        self.redelivered = redelivered
        self.run = run
        self.token = token
        self.until = until


class OwnerPort(Protocol):
    """The calls of a front end to an owner."""

    def hello(
        self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms], tried: int
    ) -> None:
        """Begin an epoch with all consumers that the front end has on the partition.

        Operation batches up to number `tried` may have reached this owner or another one before.
        """

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        """Take one numbered batch of operations (`node.queue.entry_format`). Batches come in order."""

    def held(self, front_end: int, epoch: int, held: HeldLeases) -> None:
        """End the greeting with the leases that the front end still holds."""

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        """Add a consumer. `result(request)` answers None, or the refusal. Where the terms name a link, and
        the owner keeps messages for it, the answer begins with `FOR_LINK`. A consumer that the owner has goes
        on by these terms, without credit; the answer comes behind all messages by its former terms.
        """

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        """Remove a consumer; its messages stay leased to the front end."""

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        """Set the limits of consumers, as (consumer, limit)."""

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        """Carry out a request by name: `get`, `purge`, `count`, `redeliver`, `browse`, `browse_next`,
        `close`, `stop`, `drain`, `undeliverable_here`, `last`, `abandoned`, `close_link`, `attach_target`,
        `renew`, `settle_named`, `find_named`, `find_undone`, `show_waiting`, `barrier_received`,
        `stream_place`, `advance`, `view`, `find_link`, `epoch`, `reader`. `result` answers it.
        """


class FrontEndPort(Protocol):
    """The calls of an owner to a front end."""

    def room(self) -> int | None:
        """The octets of deliveries that may be sent to the front end now; None: no limit.

        The node of the owner answers this call itself, without a message.
        """

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        """All operation batches up to `number` are committed. `refused` has, by batch, the messages that
        queues have refused, counted from 0; it may repeat those of earlier batches. A front end ignores calls
        of earlier epochs: one before them, which told of refused messages, may be lost.
        """

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        """Deliver messages to the front end's consumers."""

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        """Answer `attach` or `request`."""

    def consumer_cancelled(self, epoch: int, consumer: int, stolen: bool = False) -> None:
        """The consumer's queue was deleted, or, if it is `stolen`, its link has another consumer. A link that
        has lost its target is told in the same way, by the number of the target.
        """

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        """Tell a consumer's numbers in a queue with a single active consumer. `joined` is its place in the
        order of all consumers. `activated` is 0 unless the consumer is the active one; then it is above all
        earlier such numbers.
        """

    def lease_ends_changed(self, epoch: int, queue: int, ranges: Ranges, until: int) -> None:
        """The leases of these messages end at another time, in milliseconds since the epoch; UNTOLD: they
        have lapsed; BACK_IN_QUEUE: they have ended. A front end of an earlier release ignores the call.
        """

    def resync(self) -> None:
        """Greet the owner again: a message was lost on the way."""


_ENVELOPE = struct.Struct(">cBIQQ")
_RUN_FORM: Final = (str, str | None, int, bool, int, int, int, bytes | None, int)
_DELIVERY_FORM: Final = (int, int, [(int, int)], bool, *_RUN_FORM)
_LEASE_FORM: Final = (*_DELIVERY_FORM, int, int)
"""A delivery with the token and the end of its lease. A lease without an end leaves out the last field, and
one without a token both.
"""

_SPANS_FORM: Final = [(int, [(int, int, int)])]
_HELD_FORM: Final = ([(int, [(int, int)])], _SPANS_FORM, _SPANS_FORM, _SPANS_FORM)
"""The end of a greeting. Where no lease has an end the last field is left out, and where none has a token the
last two.
"""

_CHANNEL_BITS: Final = 16
"""A delivery's channel number stands in so many bits of an integer, the format of its messages above."""

_CHANNEL_MAX: Final = (1 << _CHANNEL_BITS) - 1

DELIVERY_BACKLOG_BYTES: Final = 12 * 1024 * 1024
"""Octets that may wait for a peer in the transport before owners deliver no more to its consumers: messages
beyond the transport's queue would be dropped."""

SendCall = Callable[[Sequence[bytes | memoryview]], object]

_pack: Final = msgpack.Packer().pack
"""As msgpack.packb, which makes a packer with a buffer of its own for each call."""


class OwnerCall(IntEnum):
    """The calls of `OwnerPort` by their numbers in messages."""

    HELLO = 1
    OPERATIONS = 2
    HELD = 3
    ATTACH = 4
    DETACH = 5
    CREDIT = 6
    REQUEST = 7


class FrontEndCall(IntEnum):
    """The calls of `FrontEndPort` by their numbers in messages."""

    ACKNOWLEDGED = 1
    DELIVERED = 2
    RESULT = 3
    CONSUMER_CANCELLED = 4
    RESYNC = 5
    ACTIVITY = 6
    LEASE_ENDS_CHANGED = 7


def address(parts: Sequence[bytes]) -> tuple[int, int]:
    """The partition and the front end in a message's envelope. Raises MessageError."""
    _tag, _call, partition, front_end, _epoch = _envelope(parts)
    return partition, front_end


def _envelope(parts: Sequence[bytes]) -> tuple[bytes, int, int, int, int]:
    if len(parts[0]) != _ENVELOPE.size:
        raise MessageError(f"the envelope of a message has not {_ENVELOPE.size} octets")
    return cast(tuple[bytes, int, int, int, int], _ENVELOPE.unpack(parts[0]))


def _arguments(parts: Sequence[bytes]) -> Any:
    try:
        return msgpack.unpackb(parts[1])
    except Exception as error:
        raise MessageError(f"the arguments of a call do not decode: {error}") from error


def _contents(parts: Sequence[bytes], count: int) -> Sequence[bytes]:
    """The parts behind the arguments. Raises MessageError if these are not `count` parts."""
    if len(parts) != 2 + count:
        raise MessageError(f"a call has {len(parts) - 2} parts of contents, not {count}")
    return parts[2:]


class RemoteOwner:
    """`OwnerPort` for an owner on another node."""

    def __init__(self, partition: int, send: SendCall) -> None:
        self._partition = partition
        self._send = send

    def _call(self, call: OwnerCall, front_end: int, epoch: int, arguments: Any, *contents: bytes) -> None:
        envelope = _ENVELOPE.pack(TO_OWNER, call, self._partition, front_end, epoch)
        self._send([envelope, _pack(arguments), *contents])

    def hello(
        self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms], tried: int
    ) -> None:
        plain = [terms_to_plain(terms) for terms in consumers]
        self._call(OwnerCall.HELLO, front_end, epoch, [node, plain, tried])

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        self._call(OwnerCall.OPERATIONS, front_end, epoch, number, data)

    def held(self, front_end: int, epoch: int, held: HeldLeases) -> None:
        plain = [list(part.items()) for part in held]
        # An owner that knows no tokens reads two fields, and one that knows no ends at most three.
        while len(plain) > 2 and not plain[-1]:
            del plain[-1]
        self._call(OwnerCall.HELD, front_end, epoch, plain)

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        self._call(OwnerCall.ATTACH, front_end, epoch, [request, terms_to_plain(terms)])

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        self._call(OwnerCall.DETACH, front_end, epoch, consumer)

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        self._call(OwnerCall.CREDIT, front_end, epoch, limits)

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        self._call(OwnerCall.REQUEST, front_end, epoch, [request, name, arguments])


def _by_queue(plain: list[Any]) -> dict[int, list[Any]]:
    return {queue: [tuple(part) for part in parts] for queue, parts in plain}


def _ranges(plain: list[Any]) -> Ranges:
    return [(first, last) for first, last in plain]


def receive_for_owner(owner: OwnerPort, parts: Sequence[bytes]) -> None:
    """Carry out a call of a `RemoteOwner`, unless it is one of a later release. Raises MessageError."""
    _tag, call, _partition, front_end, epoch = _envelope(parts)
    arguments = _arguments(parts)
    match call:
        case OwnerCall.OPERATIONS:
            expect(arguments, int)
            owner.operations(front_end, epoch, arguments, _contents(parts, 1)[0])
        case OwnerCall.CREDIT:
            expect(arguments, [(int, int)])
            owner.credit(front_end, epoch, [(consumer, limit) for consumer, limit in arguments])
        case OwnerCall.HELLO:
            expect(arguments, (str, [list], int))
            node, consumers, tried = arguments
            owner.hello(front_end, epoch, node, [terms_from_plain(plain) for plain in consumers], tried)
        case OwnerCall.HELD:
            expect(arguments, list)
            expect(arguments, _HELD_FORM[: max(len(arguments), 2)])
            owner.held(front_end, epoch, HeldLeases(*map(_by_queue, [*arguments, [], []][:4])))
        case OwnerCall.ATTACH:
            expect(arguments, (int, list))
            owner.attach(front_end, epoch, arguments[0], terms_from_plain(arguments[1]))
        case OwnerCall.DETACH:
            expect(arguments, int)
            owner.detach(front_end, epoch, arguments)
        case OwnerCall.REQUEST:
            expect(arguments, (int, str, list))
            owner.request(front_end, epoch, *arguments)


def _delivery_to_plain(delivery: Delivery, tells: TellsLeases) -> tuple[Any, ...]:
    run = delivery.run
    lengths = None if run.lengths is None else run.lengths.tobytes()
    plain = (
        delivery.consumer,
        delivery.queue,
        delivery.ranges,
        delivery.redelivered,
        run.exchange,
        run.routing_key,
        run.channel | run.format << _CHANNEL_BITS,
        run.persistent,
        run.count,
        run.skip,
        run.stride,
        lengths,
        run.largest_frame,
    )
    if (delivery.token == NO_TOKEN and delivery.until == UNTOLD) or not tells.tokens():
        return plain
    if delivery.until != UNTOLD and tells.ends():
        return (*plain, delivery.token, delivery.until)
    return (*plain, delivery.token)


def _delivery_from_plain(plain: Sequence[Any], raw: bytes) -> Delivery:
    """The delivery in a call's arguments and contents. Raises MessageError."""
    expect(plain, _LEASE_FORM[: max(len(plain), len(_DELIVERY_FORM))])
    consumer, queue, ranges, redelivered, *header, lengths_data, largest_frame = plain[: len(_DELIVERY_FORM)]
    exchange, routing_key, kind, persistent, count, skip, stride = header
    format, channel = kind >> _CHANNEL_BITS, kind & _CHANNEL_MAX
    if format not in FORMATS:
        raise MessageError(f"messages of unknown format {format}")
    if (routing_key is None) is not (skip == OWN_METHODS) or (routing_key is None and lengths_data is None):
        raise MessageError("a delivery states no routing key, or two ways to find the keys")
    lengths = None
    if lengths_data is not None:
        lengths = array("I")
        if len(lengths_data) % lengths.itemsize:
            raise MessageError(f"{len(lengths_data)} octets are no lengths of messages")
        lengths.frombytes(lengths_data)
    run = Run(
        exchange,
        routing_key,
        channel,
        persistent,
        count,
        skip,
        stride,
        lengths,
        largest_frame,
        raw,
        format=format,
    )
    numbers = cast(Ranges, list(map(tuple, ranges)))
    return Delivery(consumer, queue, numbers, redelivered, run, *plain[len(_DELIVERY_FORM) :])


class RemoteFrontEnd:
    """`FrontEndPort` for a front end on another node."""

    def __init__(
        self,
        partition: int,
        front_end: int,
        send: SendCall,
        backlog: Callable[[], int] | None = None,
        tells: TellsLeases = TELLS_NOTHING,
    ) -> None:
        """`backlog` tells how many octets wait in the transport for the node; None for a front end without
        consumers. `tells`: see `TellsLeases`, about the front end.
        """
        self._partition = partition
        self._front_end = front_end
        self._send = send
        self._backlog = backlog
        self._tells = tells

    def room(self) -> int | None:
        return None if self._backlog is None else DELIVERY_BACKLOG_BYTES - self._backlog()

    def _call(
        self, call: FrontEndCall, epoch: int, arguments: Any, contents: Sequence[bytes | memoryview] = ()
    ) -> None:
        envelope = _ENVELOPE.pack(TO_FRONT_END, call, self._partition, self._front_end, epoch)
        self._send([envelope, _pack(arguments), *contents])

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        self._call(FrontEndCall.ACKNOWLEDGED, epoch, [number, refused] if refused else number)

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        plain = [_delivery_to_plain(delivery, self._tells) for delivery in deliveries]
        self._call(FrontEndCall.DELIVERED, epoch, plain, [delivery.run.raw for delivery in deliveries])

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        if delivery is None:
            self._call(FrontEndCall.RESULT, epoch, [request, value, None])
        else:
            plain = _delivery_to_plain(delivery, self._tells)
            self._call(FrontEndCall.RESULT, epoch, [request, value, plain], [delivery.run.raw])

    def consumer_cancelled(self, epoch: int, consumer: int, stolen: bool = False) -> None:
        self._call(FrontEndCall.CONSUMER_CANCELLED, epoch, [consumer, stolen] if stolen else consumer)

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        self._call(FrontEndCall.ACTIVITY, epoch, [consumer, joined, activated])

    def lease_ends_changed(self, epoch: int, queue: int, ranges: Ranges, until: int) -> None:
        self._call(FrontEndCall.LEASE_ENDS_CHANGED, epoch, [queue, ranges, until])

    def resync(self) -> None:
        self._call(FrontEndCall.RESYNC, 0, None)


def receive_for_front_end(front_end: FrontEndPort, parts: Sequence[bytes]) -> None:
    """Carry out a call that a `RemoteFrontEnd` on another node made, unless it is one of a later release.

    Raises MessageError.
    """
    _tag, call, _partition, _front_end, epoch = _envelope(parts)
    arguments = _arguments(parts)
    match call:
        case FrontEndCall.ACKNOWLEDGED:
            if isinstance(arguments, int):
                front_end.acknowledged(epoch, arguments)
            else:
                expect(arguments, (int, [(int, [(int, int)])]))
                number, refused = arguments
                batches = [(batch, _ranges(ranges)) for batch, ranges in refused]
                front_end.acknowledged(epoch, number, batches)
        case FrontEndCall.DELIVERED:
            expect(arguments, [list])
            pairs = zip(arguments, _contents(parts, len(arguments)), strict=True)
            front_end.delivered(epoch, [_delivery_from_plain(plain, raw) for plain, raw in pairs])
        case FrontEndCall.RESULT:
            expect(arguments, (int, object, object))
            request, value, plain = arguments
            delivery = None
            if plain is not None:
                expect(plain, list)
                delivery = _delivery_from_plain(plain, _contents(parts, 1)[0])
            front_end.result(epoch, request, value, delivery)
        case FrontEndCall.CONSUMER_CANCELLED:
            told = arguments if isinstance(arguments, list) else [arguments]
            expect(told, (int, bool)[: max(len(told), 1)])
            front_end.consumer_cancelled(epoch, *told)
        case FrontEndCall.ACTIVITY:
            expect(arguments, (int, int, int))
            front_end.activity(epoch, *arguments)
        case FrontEndCall.LEASE_ENDS_CHANGED:
            expect(arguments, (int, [(int, int)], int))
            front_end.lease_ends_changed(epoch, arguments[0], _ranges(arguments[1]), arguments[2])
        case FrontEndCall.RESYNC:
            front_end.resync()

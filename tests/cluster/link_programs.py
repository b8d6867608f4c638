"""A client of AMQP 1.0 that takes the steps of `tests.broker_programs` in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from node.session.amqp10.session import ConnectionSession
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import Accepted, Modified, Rejected, Released, Role, SenderSettleMode
from node.wire.amqp10.frames import Frame, FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from node.wire.amqp10.messages import header_in
from tests.session.test_amqp10_management import parsed
from tests.simulation.connection import Wired
from tests.simulation.links import DATA
from tests.site import Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import LARGE, PLAIN, WINDOW, begin, credit, octets_of, receiver, sender
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.test_management import request

SENDING: Final = 0
REQUESTING: Final = 1
RESPONDING: Final = 2
FIRST_RECEIVER: Final = 3
"""Handles of the links that each client has, and the first one of its other links."""

WITHOUT_LIMIT: Final = 1000
"""The credit of a link whose prefetch has no limit."""


class Told(NamedTuple):
    """As the method of AMQP 0-9-1 that brings a message. The tag is the delivery-id. `redelivered` is None
    for a message that came without the field first-acquirer, which the broker clears and never sets.
    """

    consumer_tag: str
    delivery_tag: int
    redelivered: bool | None


class Received(NamedTuple):
    method: Told
    body: bytes


class Receiving:
    """A link on which the client receives. `limit` is the most unsettled deliveries, or messages in all for a
    link whose deliveries come settled.
    """

    def __init__(self, handle: int, queue: str, limit: int, *, presettled: bool) -> None:
        self.handle, self.queue, self.limit, self.presettled = handle, queue, limit, presettled
        self.count = 0
        """The deliveries that have come."""
        self.unsettled: set[int] = set()
        self.attached = self.drained = self.ended = False

    @property
    def name(self) -> str:
        return f"link-{self.handle}"

    @property
    def credit(self) -> int:
        return max(0, self.limit - len(self.unsettled))


class LinkProgramClient(Wired):
    """`tests.broker_programs.ProgramClient`, with a session of AMQP 1.0.

    A consumer is a link whose credit is its prefetch. A cancelled one has no credit, because its unsettled
    deliveries go back when the link is detached. A get is a link of its own, which is drained.
    """

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site.nodes[name], 0.0)
        self.site = site
        self.deliveries: list[Received] = []
        self.cancelled: list[str] = []
        self._parser, self._prefetch = FrameParser(LARGE), 0
        self._handles, self._ids = count(FIRST_RECEIVER), count()
        self._links: dict[int, Receiving] = {}
        self._outcomes: dict[int, Any] = {}
        self._responses: list[tuple[Any, int, Any]] = []
        self._sending = False
        front_end: Any = site.front_end(name)
        self.begin(ConnectionSession(front_end, self.wire, ConnectionLimits(), self.node.clock))
        self._tell(SASL_HEADER, PLAIN)
        self._tell(
            AMQP_HEADER, d.Open("client", max_frame_size=LARGE), begin(incoming_window=1 << 20),
            sender(SENDING, None), sender(REQUESTING, MANAGEMENT_ADDRESS, "pair"),
            receiver(RESPONDING, MANAGEMENT_ADDRESS, "pair"), credit(WITHOUT_LIMIT, handle=RESPONDING),
        )  # fmt: skip
        site.until(lambda: self._sending)

    # -- octets ---------------------------------------------------------------------------------

    def _tell(self, *sent: Composite | bytes) -> None:
        self.send_octets(octets_of(*sent))

    def arrived(self, data: bytes) -> None:
        for one in self._parser.receive(data):
            if isinstance(one, Frame):
                self._heard(one)

    def _heard(self, frame: Frame) -> None:
        told = frame.performative
        if isinstance(told, d.Transfer):
            self._delivered(told, bytes(frame.payload))
        elif isinstance(told, d.Disposition) and told.role is Role.RECEIVER:
            for id in range(told.first, (told.first if told.last is None else told.last) + 1):
                self._outcomes[id] = told.state
        elif isinstance(told, d.Attach) and told.handle in self._links:
            self._links[told.handle].attached = told.source is not None
        elif isinstance(told, d.Flow) and told.handle == SENDING:
            self._sending = True
        elif isinstance(told, d.Flow) and told.handle in self._links:
            self._links[told.handle].drained |= bool(told.drain)
        elif isinstance(told, d.Detach):
            self._detached(told)
        else:
            assert not isinstance(told, d.End | d.Close), told

    def _delivered(self, told: d.Transfer, octets: bytes) -> None:
        if told.handle == RESPONDING:
            self._responses.append(parsed(octets))
            return
        assert told.delivery_id is not None
        link = self._links[told.handle]
        link.count += 1
        if not told.settled:
            link.unsettled.add(told.delivery_id)
        body = octets[octets.rindex(DATA) + len(DATA) + 1 :]
        first = header_in(octets).first_acquirer
        tag = Told(link.name, told.delivery_id, None if first is None else not first)
        self.deliveries.append(Received(tag, body))

    def _detached(self, told: d.Detach) -> None:
        link = self._links.get(told.handle)
        assert link is not None, told
        if not link.ended:
            assert told.error is not None, told
            self.cancelled.append(link.name)
            self._tell(d.Detach(told.handle, True))
        del self._links[told.handle]

    def _wait(self, reached: Callable[[], Any]) -> bool:
        """Whether that is reached; not when the client's node is lost."""
        life = self.node.life
        self.site.until(lambda: reached() or self.node.life != life)
        return bool(reached())

    # -- publishing -----------------------------------------------------------------------------

    def publish_confirmed(self, queue: str, bodies: Sequence[bytes], exchange: str, mode: int) -> list[bool]:
        address = f"/exchanges/{exchange}/{queue}" if exchange else f"/queues/{queue}"
        header = d.Header(durable=None if mode == 2 else False, first_acquirer=True).encode()
        properties = d.Properties(to=address).encode()
        ids = [next(self._ids) for _ in bodies]
        self._tell(
            *(
                transfer(id, message(header, properties, body=body), SENDING)
                for id, body in zip(ids, bodies, strict=True)
            )
        )
        self._wait(lambda: self._outcomes.keys() >= set(ids))
        told = [self._outcomes.pop(id, None) for id in ids]
        # A message of an exchange without bindings is released: no queue takes it.
        assert all(isinstance(one, Accepted | None | (Released if exchange else Accepted)) for one in told), (
            told
        )
        return [one is not None for one in told]

    # -- the management -------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        self._responses.clear()
        self._tell(transfer(next(self._ids), request(path, method, body), REQUESTING, settled=True))
        assert self._wait(lambda: self._responses)
        self._tell(credit(WITHOUT_LIMIT, None, RESPONDING))
        ((_, status, found),) = self._responses
        assert status in (200, 201, 204), (method, path, status, found)
        return found

    def declare(self, queue: str) -> Any:
        return self._ask("PUT", f"/queues/{queue}", {"durable": True})

    def bind(self, queue: str, exchange: str) -> None:
        bound = {"source": exchange, "destination_queue": queue, "binding_key": "", "arguments": {}}
        self._ask("POST", "/bindings", bound)

    def purge(self, queue: str) -> int:
        return int(self._ask("DELETE", f"/queues/{queue}/messages")["message_count"])

    def delete(self, queue: str) -> None:
        self._ask("DELETE", f"/queues/{queue}")

    def depth(self, queue: str) -> int:
        return int(self._ask("GET", f"/queues/{queue}")["message_count"])

    # -- receiving ------------------------------------------------------------------------------

    def _attach(self, queue: str, limit: int, *, no_ack: bool) -> Receiving:
        link = Receiving(next(self._handles), queue, limit, presettled=no_ack)
        mode = SenderSettleMode.SETTLED if no_ack else SenderSettleMode.UNSETTLED
        self._links[link.handle] = link
        self._tell(receiver(link.handle, f"/queues/{queue}", link.name, snd_settle_mode=mode))
        assert self._wait(lambda: link.attached)
        return link

    def _give(self, link: Receiving, **fields: Any) -> None:
        self._tell(credit(link.credit, link.count, link.handle, incoming_window=WINDOW, **fields))

    def get(self, queue: str, *, no_ack: bool) -> Received | None:
        link = self._attach(queue, 1, no_ack=no_ack)
        before = len(self.deliveries)
        self._give(link, drain=True)
        assert self._wait(lambda: link.drained or link.count)
        if no_ack or not link.count:
            link.ended = True
            self._tell(d.Detach(link.handle, True))
        link.limit = 0
        got = [one for one in self.deliveries[before:] if one.method.consumer_tag == link.name]
        for one in got:
            self.deliveries.remove(one)
        return got[0] if got else None

    def qos(self, count: int, *, shared: bool) -> None:
        assert not shared, "a session of AMQP 1.0 has no shared limit"
        self._prefetch = count

    def consume(self, queue: str, *, no_ack: bool) -> str:
        limit = WITHOUT_LIMIT if no_ack else self._prefetch or WITHOUT_LIMIT
        link = self._attach(queue, limit, no_ack=no_ack)
        self._give(link)
        return link.name

    def cancel(self, tag: str) -> None:
        (link,) = [one for one in self._links.values() if one.name == tag]
        link.limit = 0
        self._give(link, echo=True)

    # -- settling -------------------------------------------------------------------------------

    def _settle(self, delivery: Received, state: Composite, *, multiple: bool = False) -> None:
        last = delivery.method.delivery_tag
        taken = {
            link.handle: [id for id in link.unsettled if id == last or (multiple and id <= last)]
            for link in self._links.values()
        }
        first = min([id for ids in taken.values() for id in ids], default=last)
        sent: list[Composite | bytes] = [d.Disposition(Role.RECEIVER, first, last, True, state)]
        for handle, ids in taken.items():
            link = self._links[handle]
            link.unsettled.difference_update(ids)
            if ids and not link.presettled:
                sent.append(credit(link.credit, link.count, handle, incoming_window=WINDOW))
        self._tell(*sent)

    def ack(self, delivery: Received, *, multiple: bool = False) -> None:
        self._settle(delivery, Accepted(), multiple=multiple)

    def nack(self, delivery: Received, *, requeue: bool, multiple: bool = False) -> None:
        self._settle(delivery, Released() if requeue else Rejected(d.Error("app:bad")), multiple=multiple)

    def reject(self, delivery: Received, *, requeue: bool) -> None:
        self._settle(delivery, Modified(True) if requeue else Rejected())

    def recover(self) -> None:
        unsettled = [id for link in self._links.values() for id in link.unsettled]
        if unsettled:
            last = Received(Told("", max(unsettled), False), b"")
            self._settle(last, Released(), multiple=True)

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """The connection is lost."""
        self.lost = True
        self.node.input(self.session.lost)
        self.site.run(0.01)

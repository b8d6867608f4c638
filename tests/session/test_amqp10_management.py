"""The management of a connection of AMQP 1.0: each path and method, and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.refusal import AccessRefusedError, NotFoundError, PreconditionFailedError, locked
from node.routing.matching import Binding, Destination, DestinationKind
from node.session.amqp10.management import arguments_hash, routed
from node.session.ports import DeclaredQueue, QueueDeclaration, QueueRef
from node.session.queue_description import QueueDescription
from node.session.view_port import UNKNOWN_VERSION, TakeRows, ViewRows, ViewVersion
from node.wire.amqp091.fields import Timestamp
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.decoding import read_value
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.management import MANAGEMENT_ADDRESS, ManagementRequest, RequestError
from node.wire.amqp10.messages import properties_of_head
from node.wire.amqp10.sections import body_values, scan_sections
from node.wire.amqp10.values import Described, Symbol, TimestampMs, UInt, ULong, decimal128_of
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.peer import error_in, transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.test_management import request

QUEUE = Destination(DestinationKind.QUEUE, "q")


class Catalog(NodeBroker):
    """Has the queues and bindings that were declared."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, QueueDeclaration] = {}
        self.exchanges: dict[str, Any] = {}
        self.bound: dict[Binding, Mapping[str, Any]] = {}
        self.purged: list[str] = []
        self.views = SteadyViews()

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        self._refuse(f"queue {name}")
        if name not in self.queues:
            raise NotFoundError(f"no queue '{name}'")
        return QueueRef(name, 1, 1, vhost)

    def find_local_queue(self, vhost: str, name: str) -> QueueRef:
        raise NotFoundError(f"no queue '{name}'")

    def declare_queue(self, vhost: str, declaration: QueueDeclaration, holder: int, answer: Any) -> None:
        created = declaration.name not in self.queues
        known = self.queues.setdefault(declaration.name, declaration)
        if known == declaration:
            answer(DeclaredQueue(QueueRef(declaration.name, 1, 1, vhost), created=created), None)
        else:
            answer(None, PreconditionFailedError("inequivalent arg"))

    def delete_queue(self, queue: QueueRef, if_unused: bool, if_empty: bool, answer: Any) -> None:
        del self.queues[queue.name]
        answer(4, None)

    def purge(self, queue: QueueRef, answer: Any) -> None:
        self.purged.append(queue.name)
        answer(3, None)

    def describe(self, queue: QueueRef) -> QueueDescription:
        known = self.queues[queue.name]
        return QueueDescription(
            known.name, "quorum", known.durable, known.exclusive, known.auto_delete, known.arguments, "n2",
            ("n1", "n2"),
        )  # fmt: skip

    def declare_exchange(self, vhost: str, exchange: Any, answer: Any) -> None:
        self.exchanges[exchange.name] = exchange
        answer(self.refusals.get("exchange"))

    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answer: Any) -> None:
        self.exchanges.pop(name, None)
        answer(None)

    def bind(self, vhost: str, binding: Binding, arguments: Any, answer: Any) -> None:
        self.bound[binding] = arguments
        answer(None)

    def unbind(self, vhost: str, binding: Binding, arguments: Any, answer: Any) -> None:
        self.bound.pop(binding, None)
        answer(None)

    def bindings(self, vhost: str, source: str, destination: Destination) -> list[tuple[Binding, Any]]:
        return [
            one for one in self.bound.items() if (one[0].source, one[0].destination) == (source, destination)
        ]


class SteadyViews:
    """Views of which `sums`, over the queue `q`, is the only one. `asked` has the questions for its rows."""

    def __init__(self) -> None:
        self.asked: list[tuple[ViewVersion, int]] = []

    def queue_of(self, vhost: str, view: str) -> str:
        if view != "sums":
            raise NotFoundError(f"no view '{view}' in vhost '{vhost}'")
        return "q"

    def read(
        self, vhost: str, view: str, holder: int, known: ViewVersion, wait_ms: int, answer: TakeRows,
        *, keyed: bool = False,
    ) -> None:  # fmt: skip
        self.asked.append((known, wait_ms))
        rows = [["Ada", 2, 1.5], [None, 1, None], [True, 1, 2**63 - 1]]
        answer(ViewRows(ViewVersion(3, 7), 2, False, True, False, ["c", "n", "sum"], rows), None)


class ManagingClient:
    """A client with a link pair to the management."""

    def __init__(self) -> None:
        self.broker = Catalog()
        self.client = Client(self.broker)
        self.client.send(sender(0, MANAGEMENT_ADDRESS, "pair"), receiver(1, MANAGEMENT_ADDRESS, "pair"))
        self.client.send(credit(10_000, handle=1))
        self.sent = 0

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the body of the response."""
        ((correlation, status, found),) = self.ask_all((method, path, body))
        assert correlation == f"id-{self.sent}"
        return status, found

    def ask_all(self, *asked: tuple[str, str, Any]) -> list[tuple[Any, int, Any]]:
        """The responses to requests in one piece."""
        octets = []
        for method, path, body in asked:
            self.sent += 1
            one = request(path, method, body, message_id=f"id-{self.sent}")
            octets.append(transfer(self.sent, one, settled=True))
        before = len(self.client.frames)
        self.client.send(*octets)
        return [parsed(bytes(one.payload)) for one in self.client.frames[before:] if len(one.payload)]


def parsed(octets: bytes) -> tuple[Any, int, Any]:
    sections = scan_sections(octets, 0, len(octets))
    properties = properties_of_head(octets)
    assert properties is not None and properties.subject is not None
    ((start, end),) = body_values(octets, sections)
    return properties.correlation_id, int(properties.subject), read_value(octets, start, end)[0]


@pytest.fixture
def manager() -> ManagingClient:
    return ManagingClient()


def shown(name: str, **fields: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "name": name, "vhost": "/", "durable": True, "auto_delete": False, "exclusive": False,
        "type": "quorum", "arguments": {}, "leader": "n2", "replicas": ["n1", "n2"],
        "message_count": 0, "consumer_count": 0,
    }  # fmt: skip
    return whole | fields


def test_queues(manager: ManagingClient) -> None:
    body = {"durable": True, "arguments": {Symbol("x-max-length"): UInt(7)}}
    described = shown("a b", arguments={"x-max-length": 7})
    assert manager.ask("PUT", "/queues/a%20b", body) == (201, described)
    assert manager.ask("PUT", "/queues/a%20b", body) == (200, described)
    assert type(manager.broker.queues["a b"].arguments["x-max-length"]) is int
    assert manager.ask("PUT", "/queues/a%20b", {"durable": False})[0] == 409
    status, found = manager.ask("GET", "/queues/a%20b")
    assert (status, found) == (200, described) and type(found["message_count"]) is ULong
    assert manager.ask("DELETE", "/queues/a%20b/messages") == (200, {"message_count": 3})
    assert manager.broker.purged == ["a b"]
    assert manager.ask("DELETE", "/queues/a%20b") == (200, {"message_count": 4})
    assert manager.ask("DELETE", "/queues/a%20b") == (200, {"message_count": 0})
    assert [manager.ask("GET", "/queues/a%20b")[0], manager.ask("DELETE", "/queues/q/messages")[0]] == [
        404,
        404,
    ]


@pytest.mark.requirement("D15.2")
def test_views(manager: ManagingClient) -> None:
    rows = [
        {"c": "Ada", "n": 2, "sum": 1.5},
        {"c": None, "n": 1, "sum": None},
        {"c": True, "n": 1, "sum": 2**63 - 1},
    ]
    shown = {"version": "3.7", "behind": 2, "complete": False, "at_once": True, "rows": rows}
    assert manager.ask("GET", "/views/sums") == (200, shown)
    assert manager.ask("GET", "/views/sums?after=3.6&wait=1.5") == (200, shown)
    assert manager.broker.views.asked == [(UNKNOWN_VERSION, 0), (ViewVersion(3, 6), 1500)]
    for path, status in (
        ("/views/none", 404), ("/views/sums?after=x", 400), ("/views/sums?after=1.2&wait=21", 400),
        ("/views/sums?after=1.2&wait=x", 400), ("/views/" + "n" * 256, 400), ("/views", 404),
    ):  # fmt: skip
        assert manager.ask("GET", path)[0] == status
    assert manager.ask("PUT", "/views/sums", {})[0] == 405


def test_arguments_that_amqp_1_0_has_no_type_for_are_told(manager: ManagingClient) -> None:
    odd = {"large": 2**70, "digits": Decimal(10**40), "octet \udcff": "\udcff", "when": Timestamp(9)}
    manager.broker.queues["q"] = QueueDeclaration("q", True, False, False, odd)
    told = {"large": str(2**70), "digits": str(Decimal(10**40)), "octet ?": "?", "when": 9000}
    assert manager.ask("GET", "/queues/q") == (200, shown("q", arguments=told))
    manager.broker.bound[Binding.of("x\udcff", QUEUE, "\udcff", odd)] = odd
    manager.broker.bound[Binding.of("x", QUEUE, "\udcff", odd)] = odd
    status, (found,) = manager.ask("GET", "/bindings?src=x&dstq=q")
    assert (status, found["binding_key"], found["arguments"]) == (200, "?", told)
    manager.broker.refusals["queue q"] = NotFoundError("no '\udcff'")
    assert manager.ask("GET", "/queues/q") == (404, "no '?'")


def test_arguments_keep_their_types(manager: ManagingClient) -> None:
    asked = {
        "when": TimestampMs(9000),
        "size": UInt(7),
        "few": [Symbol("a")],
        "d": decimal128_of(Decimal("1.5")),
    }
    assert manager.ask("PUT", "/queues/q", {"arguments": asked})[0] == 201
    kept = manager.broker.queues["q"].arguments
    assert kept == {"when": Timestamp(9), "size": 7, "few": ["a"], "d": Decimal("1.5")}
    assert [type(one) for one in kept.values()] == [Timestamp, int, list, Decimal]
    assert manager.ask("PUT", "/queues/r", {"arguments": {"d": Described("a", 1)}})[0] == 400


def test_exchanges(manager: ManagingClient) -> None:
    body = {"type": "topic", "durable": False, "auto_delete": True, "internal": True, "arguments": {}}
    assert manager.ask("PUT", "/exchanges/x%2Fy", body) == (204, None)
    exchange = manager.broker.exchanges["x/y"]
    assert (exchange.kind.value, exchange.durable, exchange.auto_delete, exchange.internal) == (
        "topic", False, True, True,
    )  # fmt: skip
    manager.broker.refusals["exchange"] = PreconditionFailedError("inequivalent arg")
    assert manager.ask("PUT", "/exchanges/x%2Fy", {}) == (409, "inequivalent arg")
    assert manager.ask("DELETE", "/exchanges/x%2Fy") == (204, None) and not manager.broker.exchanges


def test_bindings(manager: ManagingClient) -> None:
    manager.ask("PUT", "/queues/q", {})
    plain = {"source": "x", "binding_key": "a;b=c", "destination_queue": "q", "arguments": {}}
    with_arguments = plain | {"arguments": {"x-match": "all"}}
    to_exchange = {"source": "x", "binding_key": "", "destination_exchange": "y"}
    for body in (plain, with_arguments, to_exchange):
        assert manager.ask("POST", "/bindings", body) == (204, None)
    assert len(manager.broker.bound) == 3
    status, found = manager.ask("GET", "/bindings?src=x&dstq=q&key=a%3Bb%3Dc")
    assert status == 200 and [one["arguments"] for one in found] == [{}, {"x-match": "all"}]
    assert [(one["source"], one["destination_queue"], one["binding_key"]) for one in found] == [
        ("x", "q", "a;b=c"), ("x", "q", "a;b=c"),
    ]  # fmt: skip
    assert manager.ask("GET", "/bindings?src=x&dstq=q&key=other") == (200, [])
    assert manager.ask("DELETE", "/bindings/src=x;dstq=q;key=a%3Bb%3Dc;args=none") == (204, None)
    assert len(manager.broker.bound) == 3, "no binding has such arguments"
    for one in found:
        assert manager.ask("DELETE", one["location"]) == (204, None)
    assert list(manager.broker.bound) == [Binding.of("x", Destination(DestinationKind.EXCHANGE, "y"))]
    assert manager.ask("DELETE", "/bindings/src=x;dste=y;key=;args=") == (204, None)
    assert not manager.broker.bound


def test_arguments_have_one_hash() -> None:
    one, other = ({"a": 1, "b": "x"}, {"b": "x", "a": 1})
    assert arguments_hash(Binding.of("x", QUEUE, "", one)) == arguments_hash(
        Binding.of("x", QUEUE, "", other)
    )
    assert arguments_hash(Binding.of("x", QUEUE, "", {"a": 2})) != arguments_hash(
        Binding.of("x", QUEUE, "", one)
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 404), ("GET", "", None, 404), ("PUT", "/auth/tokens", None, 400),
        ("PATCH", "/queues/q", None, 405), ("PUT", "/bindings", None, 405), ("GET", "/queues/%ff", None, 400),
        ("PUT", "/queues/q", "text", 400), ("PUT", "/queues/q", {"durable": 1}, 400),
        ("PUT", "/queues/q", {1: 2}, 400), ("PUT", "/queues/q", {"durabel": True}, 400),
        ("PUT", "/exchanges/x", {"kind": "topic"}, 400), ("POST", "/bindings", {"key": "k"}, 400),
        ("PUT", "/queues/q", {"arguments": "none"}, 400), ("PUT", "/queues/" + "n" * 256, {}, 400),
        ("PUT", "/exchanges/x", {"type": 7}, 400), ("PUT", "/exchanges/x", {"type": "unknown"}, 409),
        ("POST", "/bindings", {"source": "x"}, 400), ("GET", "/bindings?src=x", None, 400),
        ("POST", "/bindings", {"source": "x", "destination_queue": "q", "destination_exchange": "y"}, 400),
        ("POST", "/bindings", {"source": "x", "destination_queue": "absent"}, 404),
        ("DELETE", "/bindings/nothing", None, 400),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_carried_out(
    manager: ManagingClient, method: str, path: str, body: Any, status: int
) -> None:
    found, text = manager.ask(method, path, body)
    assert (found, type(text)) == (status, str)
    assert manager.ask("PUT", "/queues/next", {})[0] == 201, "the link lives on"


def test_refusals_of_the_broker_have_their_status(manager: ManagingClient) -> None:
    manager.ask("PUT", "/queues/q", {})
    for refusal, status in (
        (AccessRefusedError("no"), 403),
        (locked("/", "q"), 409),
        (NotFoundError("no"), 404),
    ):
        manager.broker.refusals["queue q"] = refusal
        assert manager.ask("GET", "/queues/q") == (status, str(refusal))


def test_requests_are_answered_in_order(manager: ManagingClient) -> None:
    asked = [("PUT", f"/queues/{number}", {}) for number in range(8)]
    found = manager.ask_all(*asked, *asked)
    assert [one[0] for one in found] == [f"id-{number}" for number in range(1, 17)]
    assert [one[1] for one in found] == [201] * 8 + [200] * 8


def test_a_message_that_is_no_request_closes_its_link(manager: ManagingClient) -> None:
    (detach,) = manager.client.send(transfer(1, request(message_id=None), settled=True))
    assert error_in(detach, d.Detach).condition == AmqpCondition.DECODE_ERROR
    assert manager.client.send(d.Detach(1, True)) == [d.Detach(1, True)], "the session lives on"


SEGMENTS = st.sampled_from(
    ["queues", "bindings", "exchanges", "messages", "q", "src=x;dstq=q", "%", "%ff", ""]
)


@given(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "get"]),
    st.lists(SEGMENTS | st.text(max_size=5), max_size=4).map("/".join),
)
def test_any_path_leads_to_a_handler_or_is_refused(method: str, path: str) -> None:
    try:
        routed(ManagementRequest("id", method, path, None))
    except RequestError as error:
        assert error.status in (400, 404, 405)

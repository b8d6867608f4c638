"""AMQP over WebSocket on a node's HTTP port (AMQP WebSocket Binding 1.0)."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from node.wire.amqp10 import definitions as d
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, until
from tests.processes.shell import Shell
from tests.processes.websocket_client import LIMIT_S, connected, frames_of, opened, run
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.sections import message

PATHS = ("/amqp", "/$servicebus/websocket")


def leased(node: Node, name: str) -> int:
    """The messages of a queue that consumers have."""
    return int(Management(node).get("queues", "/", name)["messages_unacknowledged"])


@pytest.fixture
def queue(cluster: Cluster, name: str) -> str:
    with cluster[0].connect() as connection:
        connection.channel().queue_declare(name, durable=True)
    return f"/queues/{quote(name, safe='')}"


@pytest.mark.requirement("B1.7")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [None, 3])
def test_a_message_goes_in_on_one_node_and_out_on_another(
    cluster: Cluster, queue: str, path: str, size: int | None
) -> None:
    body = message(body=b"x" * 300_000)

    async def work() -> None:
        async with opened(cluster[1], path, size) as taking, opened(cluster[0], path, size) as sending:
            await sending.send(sender(0, queue))
            assert isinstance((await sending.read(2))[1], d.Flow)
            await sending.send(frames_of(0, body))
            (told,) = await sending.read(1)
            assert isinstance(told.state, d.Accepted)
            await taking.send(receiver(0, queue), credit(1))
            await taking.read(1)
            parts = await taking.read(1)
            while parts[-1].more:
                parts += await taking.read(1)
            await taking.send(d.Disposition(d.Role.RECEIVER, 0, None, True, d.Accepted()), d.Close())
            assert isinstance((await taking.read(1))[0], d.Close)
            assert (await taking.socket.receive(LIMIT_S)).type is aiohttp.WSMsgType.CLOSE

    run(work)


def test_a_client_that_does_not_read_holds_the_node_up_no_longer_than_over_a_socket(
    cluster: Cluster, queue: str, name: str
) -> None:
    """Many large deliveries wait for a client that reads nothing, and come when the client reads."""
    count = 40

    async def work() -> None:
        async with opened(cluster[0]) as socket:
            await socket.send(sender(0, queue))
            await socket.read(2)
            sent = [frames_of(one, message(body=b"x" * 900_000)) for one in range(count)]
            await socket.send(*sent, size=1_000_000)
            settled = 0
            while settled < count:
                (told,) = await socket.read(1)
                if isinstance(told, d.Disposition):
                    settled += (told.first if told.last is None else told.last) - told.first + 1
            await socket.send(receiver(1, queue), credit(count, handle=1))
            await asyncio.to_thread(until, lambda: leased(cluster[0], name), "deliveries wait")
            whole = 0
            while whole < count:
                (one,) = await socket.read(1)
                whole += isinstance(one, d.Transfer) and not one.more

    run(work)


@pytest.mark.requirement("B1.8")
def test_the_node_takes_the_sub_protocol_amqp_among_others(cluster: Cluster) -> None:
    async def work() -> None:
        async with connected(cluster[0], protocols=("mqtt", "amqp")) as socket:
            assert socket.socket.protocol == "amqp"

    run(work)


@pytest.mark.requirement("B1.8")
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"protocols": ()}, 400),
        ({"protocols": ("mqtt",)}, 400),
        ({"headers": {"Origin": "http://elsewhere.example"}}, 403),
        ({"headers": {"Host": "elsewhere.example"}}, 421),
    ],
)
def test_a_request_is_refused_that_asks_for_something_else(
    cluster: Cluster, options: dict[str, Any], status: int
) -> None:
    async def work() -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with connected(cluster[0], **options):
                raise AssertionError("the node takes the WebSocket")
        assert refused.value.status == status

    run(work)


@pytest.mark.parametrize("text", [True, False])
def test_text_and_octets_of_no_protocol_end_the_connection(cluster: Cluster, text: bool) -> None:
    async def work() -> None:
        async with connected(cluster[0]) as socket:
            if text:
                await socket.socket.send_str("AMQP")
            else:
                await socket.socket.send_bytes(b"GET / HT")
                assert (await socket.socket.receive(LIMIT_S)).data == b"AMQP\0\0\x09\x01"
            closed = await socket.socket.receive(LIMIT_S)
            assert closed.type is aiohttp.WSMsgType.CLOSE
            assert closed.data == (aiohttp.WSCloseCode.UNSUPPORTED_DATA if text else aiohttp.WSCloseCode.OK)

    run(work)


# -- the administration ---------------------------------------------------------------------------------


def test_sessions_and_their_links_are_shown_by_every_node(cluster: Cluster, queue: str) -> None:
    api = Management(cluster[1])

    def shown() -> None:
        (row,) = [one for one in api.get("connections") if one["protocol"] == "AMQP 1.0"]
        (session,) = api.get("connections", row["name"], "sessions")
        assert (session["channel_number"], session["outgoing_unsettled_deliveries"]) == (0, 2)
        (incoming,), (outgoing,) = session["incoming_links"], session["outgoing_links"]
        assert incoming == {
            "handle": 4, "link_name": "sender-4", "source_address": "from", "target_address": queue,
            "send_settled": False, "delivery_count": 2, "credit": incoming["credit"],
        }  # fmt: skip
        assert incoming["credit"] > 1000
        assert (outgoing["source_address"], outgoing["credit"], outgoing["delivery_count"]) == (queue, 5, 2)
        rows = Shell(cluster, 2).rows("connections", "links", row["name"])
        assert [(one["direction"], one["handle"], one["link_name"]) for one in rows] == [
            ("in", 4, "sender-4"), ("out", 7, "receiver-7"),
        ]  # fmt: skip

    async def work() -> None:
        async with opened(cluster[0]) as socket:
            await socket.send(sender(4, queue))
            assert isinstance((await socket.read(2))[1], d.Flow)
            await socket.send(*[transfer(number, message(), 4) for number in (1, 2)])
            await socket.send(receiver(7, queue), credit(7, handle=7))
            found: list[Any] = []
            while sum(isinstance(one, d.Transfer) for one in found) < 2:
                found += await socket.read(1)
            await asyncio.to_thread(shown)

    run(work)

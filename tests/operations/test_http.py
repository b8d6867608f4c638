"""The HTTP port of a node."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from cluster.admin.api import status_page
from cluster.admin.api.status_page import StatusPage
from cluster.admin.http.health import Health
from cluster.admin.http.pages import Pages
from cluster.admin.http.server import HttpPorts, HttpServer
from cluster.admin.metrics.metric import Metric
from cluster.admin.metrics.server import MetricsServer
from cluster.config.addresses import Address
from replication.transport import ListenError


class View:
    """A node with settable answers."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.confirmed = 7

    async def _later(self) -> Mapping[str, Any]:
        await asyncio.sleep(0)
        return {"nodes": [{"name": "n1"}]}

    def status(self) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        return self._later()

    def readiness(self) -> list[str]:
        return self.reasons

    def metrics(self) -> Iterable[Metric]:
        yield Metric("quorate_confirmed_total", "counter", "Messages confirmed.", [({}, self.confirmed)])
        yield Metric("quorate_peer_up", "gauge", "Peers.", [({"peer": "n2"}, 1), ({"peer": 'n"3'}, 0)])
        yield Metric("quorate_nothing", "gauge", "No sample yet.", [])
        counts: list[tuple[Mapping[str, str], float]] = [({"le": "0.1"}, 2.0), ({"le": "+Inf"}, 3.0)]
        yield Metric("quorate_wait_seconds", "histogram", "Waits.", counts, total=1.5)

    def queue_metrics(self) -> Iterable[Metric]:
        yield Metric("quorate_queue_messages_ready", "gauge", "Ready.", [({"vhost": "/", "queue": "q"}, 4)])

    def object_metrics(self) -> Iterable[Metric]:
        return ()

    def detailed_metrics(self, families: Sequence[str], vhosts: Sequence[str]) -> Iterable[Metric]:
        return ()


async def let_in(_: web.Request) -> web.Response | None:
    return None


def server_of(view: View, address: Address) -> HttpServer:
    pages = Pages()
    parts = (
        Health(view.readiness),
        MetricsServer(view, let_in, pages),
        StatusPage(view.status, let_in, pages),
    )
    return HttpServer(HttpPorts(address), parts)


def free_address() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", probe.getsockname()[1])


def serve(view: View, test: Any) -> None:
    """Run `test(get)` beside a server; `get(path)` gives status and text."""

    async def body() -> None:
        address = free_address()
        server = server_of(view, address)
        await server.start()
        try:
            async with aiohttp.ClientSession(f"http://{address}") as session:

                async def get(path: str, method: str = "GET") -> tuple[int, str]:
                    async with session.request(method, path) as response:
                        return response.status, await response.text()

                await test(get)
        finally:
            await server.stop()

    asyncio.run(body())


def test_health_says_why_a_node_is_not_ready() -> None:
    view = View()

    async def test(get: Any) -> None:
        assert await get("/health/live") == (200, '{"live": true}')
        assert await get("/health/ready") == (200, '{"ready": true, "reasons": []}')
        view.reasons = ["no leader for partition 0"]
        assert await get("/health/ready") == (
            503,
            '{"ready": false, "reasons": ["no leader for partition 0"]}',
        )
        assert (await get("/health/live"))[0] == 200

    serve(view, test)


def test_a_request_keeps_its_id_and_gets_one_where_it_has_none() -> None:
    async def body() -> None:
        address = free_address()
        view = View()
        server = server_of(view, address)
        await server.start()
        try:
            async with aiohttp.ClientSession(f"http://{address}") as session:
                for path in ("/health/live", "/nothing"):
                    async with session.get(path, headers={"X-Request-Id": "mine-1"}) as response:
                        assert response.headers["X-Request-Id"] == "mine-1"
                    async with session.get(path, headers={"X-Request-Id": "a b"}) as response:
                        assert len(response.headers["X-Request-Id"]) == 16
        finally:
            await server.stop()

    asyncio.run(body())


def test_metrics_are_read_at_scrape_time() -> None:
    view = View()

    async def test(get: Any) -> None:
        status, text = await get("/metrics")
        assert status == 200
        assert "# TYPE quorate_confirmed_total counter\nquorate_confirmed_total 7.0\n" in text
        assert 'quorate_peer_up{peer="n2"} 1.0\nquorate_peer_up{peer="n\\"3"} 0.0\n' in text
        assert "process_resident_memory_bytes" in text
        assert 'quorate_wait_seconds_bucket{le="+Inf"} 3.0\nquorate_wait_seconds_count 3.0\n' in text
        assert "quorate_wait_seconds_sum 1.5\n" in text
        assert "quorate_queue_messages_ready" not in text
        assert 'quorate_queue_messages_ready{queue="q",vhost="/"} 4.0\n' in (await get("/metrics/queues"))[1]
        view.confirmed = 8
        while "quorate_confirmed_total 8.0\n" not in (await get("/metrics"))[1]:
            "A page is shown for a while."

    serve(view, test)


def test_status_waits_for_the_other_nodes() -> None:
    async def test(get: Any) -> None:
        assert await get("/api/status") == (200, '{"nodes": [{"name": "n1"}]}')

    serve(View(), test)


def test_status_gives_up_when_they_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(View):
        def status(self) -> Coroutine[Any, Any, Mapping[str, Any]]:
            return asyncio.sleep(60, {})

    monkeypatch.setattr(status_page, "STATUS_TIMEOUT_S", 0.01)

    async def test(get: Any) -> None:
        status, text = await get("/api/status")
        assert status == 504
        assert "did not answer" in text

    serve(Hanging(), test)


def test_only_what_is_served_answers() -> None:
    async def test(get: Any) -> None:
        assert (await get("/"))[0] == 200
        assert (await get("/nothing"))[0] == 404
        assert (await get("/metrics", "POST"))[0] == 405

    serve(View(), test)


def test_a_taken_port_is_named_with_what_to_do() -> None:
    async def body() -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            address = Address("127.0.0.1", holder.getsockname()[1])
            with pytest.raises(ListenError, match=f"cannot listen for HTTP on {address}.*node.listen.http"):
                await server_of(View(), address).start()

    asyncio.run(body())

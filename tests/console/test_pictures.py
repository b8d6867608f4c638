"""Every page of a shop's cluster under traffic: nothing overflows, and docs/img has a picture of each (F7).

`make test-console ARGS="-k pictures --rewrite-pictures"` takes the pictures anew.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pika
import pytest

from tests.console.browser import HEIGHT, WIDTH, Browser
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster
from tests.structure.tree import ROOT

pytestmark = [pytest.mark.console]

PICTURES: Final = ROOT / "docs" / "img"
ROUTES: Final = ROOT / "cluster" / "admin" / "console" / "static" / "js" / "routes.js"
NARROW: Final = 420
"""A telephone's width, in pixels."""

PAGES: Final = {
    "overview": ("#/overview", "Overview"),
    "cluster": ("#/cluster", "Cluster"),
    "health": ("#/health", "Alarms and health"),
    "queues": ("#/queues", "Queues"),
    "queue": ("#/queues/%2F/orders", "orders"),
    "exchanges": ("#/exchanges", "Exchanges"),
    "exchange": ("#/exchanges/%2F/shop", "shop"),
    "connections": ("#/connections", "Connections"),
    "connection": ("", ""),
    "channels": ("#/channels", "Channels"),
    "consumers": ("#/consumers", "Consumers"),
    "vhosts": ("#/vhosts", "Virtual hosts"),
    "vhost": ("#/vhosts/%2F", "Virtual host /"),
    "users": ("#/users", "Users"),
    "user": ("#/users/shop", "User shop"),
    "definitions": ("#/definitions", "Definitions"),
}
"""Pages by their pictures, with place and title; those of a connection are its own."""

QUEUES: Final = {
    "orders": ["order.*"],
    "invoices": ["order.paid"],
    "shipping": ["order.paid", "order.cancelled"],
    "search-index": ["product.#"],
    "audit": ["#"],
}
KEYS: Final = ("order.placed", "order.paid", "order.paid", "order.cancelled", "product.changed")
RATE: Final = 40
SECONDS_SHOWN: Final = 40.0
"""How much of its plots a picture shows."""

TOO_WIDE: Final = """
const shown = (one) => getComputedStyle(one).overflowX === "visible" && one.clientWidth > 0;
return [...document.querySelectorAll("body *")].reverse()
  .filter((one) => one instanceof HTMLElement && shown(one) && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 160));
"""
LATEST: Final = "return document.querySelector('.plot path.line')?.getAttribute('d') ?? ''"


class Shop:
    """Publishers and consumers of a small shop, on all nodes, until it is closed."""

    def __init__(self, cluster: Cluster) -> None:
        self._closing = threading.Event()
        self._declare(cluster)
        work = (self._sell, self._take, self._take, self._take)
        self._threads = [
            threading.Thread(target=one, args=(cluster[place % 3].connect(**self._named(place)), place))
            for place, one in enumerate(work)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()

    @staticmethod
    def _named(place: int) -> dict[str, object]:
        name = ("web shop", "warehouse", "bookkeeping", "search")[place]
        return {"client_properties": {"connection_name": name, "product": name, "version": "4.2"}}

    def _declare(self, cluster: Cluster) -> None:
        api = Management(cluster[0])
        api.call("PUT", path_of("vhosts", "staging"), {"description": "before it goes live"})
        api.call("PUT", path_of("users", "shop"), {"password": "secret", "tags": ""})
        api.call("PUT", path_of("users", "operator"), {"password": "secret", "tags": "monitoring"})
        allowed = {"configure": "^shop", "write": ".*", "read": ".*"}
        for vhost in ("/", "staging"):
            api.call("PUT", path_of("permissions", vhost, "shop"), allowed)
        with closing(cluster[0].connect()) as connection:
            channel = connection.channel()
            channel.exchange_declare("shop", "topic", durable=True)
        for place, (queue, keys) in enumerate(QUEUES.items()):
            with closing(cluster[place % 3].connect()) as connection:
                channel = connection.channel()
                channel.queue_declare(queue, durable=True)
                for key in keys:
                    channel.queue_bind(queue, "shop", key)

    def _sell(self, connection: pika.BlockingConnection, _place: int) -> None:
        with closing(connection):
            channel = connection.channel()
            channel.confirm_delivery()
            number = 0
            while not self._closing.wait(1 / RATE):
                key = KEYS[number % len(KEYS)]
                properties = pika.BasicProperties(content_type="application/json", headers={"tenant": "eu"})
                channel.basic_publish("shop", key, b'{"order": %d, "total": "59.90"}' % number, properties)
                number += 1

    def _take(self, connection: pika.BlockingConnection, place: int) -> None:
        """Of two queues each; not as fast as all of them fill."""
        with closing(connection):
            channel = connection.channel()
            channel.basic_qos(prefetch_count=5 * place)
            for queue in list(QUEUES)[place - 1 : place + 1]:
                channel.basic_consume(queue, lambda one, deliver, *_: one.basic_ack(deliver.delivery_tag))
            while not self._closing.is_set():
                connection.process_data_events(time_limit=0.1)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("shop"))
    try:
        cluster.start()
        opened = Shop(cluster)
        yield cluster
        opened.close()
    finally:
        cluster.stop()


def test_every_page_has_its_picture() -> None:
    routes = set(re.findall(r'from "\./pages/(\w+)\.js"', ROUTES.read_text(encoding="utf-8")))
    assert routes == PAGES.keys()
    described = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    for page in routes:
        assert (PICTURES / f"console-{page}.png").exists()
        assert f"(img/console-{page}.png)" in described


@pytest.mark.requirement("F7.4")
def test_pictures(browser: Browser, shop: Cluster, request: pytest.FixtureRequest) -> None:
    rewriting = request.config.getoption("--rewrite-pictures")
    browser.sign_in(shop[0])
    browser.run("localStorage.setItem('quorate.interval', '2')")
    browser.driver.refresh()
    wide: dict[tuple[str, int], list[str]] = {}
    for page in PAGES:
        go(browser, page)
        if rewriting and browser.all(".plot"):
            browser.wait(lambda: seconds_drawn(browser) >= SECONDS_SHOWN, "the plots", 3 * SECONDS_SHOWN)
        wide |= {(page, width): found for width in (NARROW, WIDTH) if (found := too_wide(browser, width))}
        if rewriting:
            take(browser, page)
    assert not wide, wide
    if rewriting:
        browser.colours("dark")
        go(browser, "overview")
        take(browser, "overview-dark")
        browser.colours("light")


def go(browser: Browser, page: str) -> None:
    """Open a page, and wait until it shows what it loaded."""
    place, title = PAGES[page]
    if not place:
        first = next(row for row, cells in browser.rows().items() if cells[0] == "web shop")
        browser.follow(first)
        title = first
    else:
        browser.go(place, title)
    browser.wait(lambda: browser.heading() == title, title)
    browser.wait(lambda: browser.all("main table, main .facts, main form, main .empty"), f"{page} is filled")
    browser.wait(lambda: page != "connections" or "web shop" in browser.text("main table"), "the clients")


def too_wide(browser: Browser, width: int) -> list[str]:
    """The elements that are wider than their place in a window of this width (pixels), as HTML, and a line
    for the page itself where it scrolls sideways.
    """
    browser.resize(width, HEIGHT)
    found: list[str] = browser.run(TOO_WIDE)
    scrolls = browser.run("return document.documentElement.scrollWidth") > width
    return [*found, *(["the page scrolls sideways"] if scrolls else [])]


def seconds_drawn(browser: Browser) -> float:
    """How much time the line of the first plot spans; the plot shows ten minutes."""
    places = [float(x) for x in re.findall(r"[ML]([\d.]+) ", str(browser.run(LATEST)))]
    width = browser.run("return document.querySelector('.plot svg')?.clientWidth ?? 1")
    return (max(places) - min(places)) / width * 600 if places else 0.0


def take(browser: Browser, name: str) -> None:
    browser.run("document.activeElement.blur()")
    Path(PICTURES / f"console-{name}.png").write_bytes(browser.driver.get_screenshot_as_png())

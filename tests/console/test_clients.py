"""Who is there: connections, channels and consumers (F7)."""

from __future__ import annotations

import pika.exceptions
import pytest

from tests.console.browser import Browser
from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]


@pytest.fixture
def client(channel: Connect, name: str) -> pika.adapters.blocking_connection.BlockingChannel:
    """A consumer with a prefetch of 7, whose connection has the test's name."""
    one = channel(1, client_properties={"connection_name": name})
    one.queue_declare(name)
    one.basic_qos(prefetch_count=7)
    one.basic_consume(name, lambda *_: None, consumer_tag=f"tag of {name}")
    return one


def find(browser: Browser, place: str, title: str, text: str) -> list[str]:
    """The row of a list that is left when it is filtered by a text."""
    browser.go(place, title)
    browser.wait(lambda: browser.all("main table"), "the list")
    browser.fill("Filter by name", text)
    return browser.wait(
        lambda: next(([*pair[1]] for pair in browser.rows().items() if len(browser.rows()) == 1), None),
        "one row is left",
    )


def test_a_connection_is_found_and_closed(
    browser: Browser, cluster: Cluster, client: pika.adapters.blocking_connection.BlockingChannel, name: str
) -> None:
    browser.sign_in(cluster[0])
    browser.go("#/connections", "Connections")
    browser.wait(lambda: name in browser.text("main table"), "the connection")
    connection = next(row for row, cells in browser.rows().items() if cells[0] == name)
    cells = browser.rows()[connection]
    assert (cells[1], cells[2], cells[3], cells[4]) == ("guest", "/", "n2", "running")
    browser.follow(connection)
    browser.wait(lambda: browser.heading() == connection, "the connection's page")
    browser.wait(lambda: browser.facts().get("Node") == "n2", "what is known of it")
    assert "pika" in browser.facts()["product"].lower()
    assert f"{connection} (1)" in browser.rows()
    browser.complete("Close", "Close the connection", {"Reason": "tidying up"})
    browser.wait(lambda: browser.heading() == "Connections", "the list")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="tidying up"):
        client.connection.process_data_events(time_limit=10)


def test_channels_are_listed(
    browser: Browser,
    cluster: Cluster,
    client: pika.adapters.blocking_connection.BlockingChannel,
) -> None:
    _, port = client.connection._impl._transport._sock.getsockname()[:2]
    browser.sign_in(cluster[0])
    cells = find(browser, "#/channels", "Channels", f":{port} ")
    assert cells[:4] == ["guest", "/", "n2", "running"]
    assert cells[5:7] == ["1", "7"], "consumers and prefetch"


def test_consumers_are_listed(
    browser: Browser,
    cluster: Cluster,
    client: pika.adapters.blocking_connection.BlockingChannel,
    name: str,
) -> None:
    browser.sign_in(cluster[2])
    cells = find(browser, "#/consumers", "Consumers", f"tag of {name}")
    assert (cells[0], cells[3], cells[4], cells[5], cells[7]) == (name, "guest", "n2", "yes", "7")
    browser.follow(name)
    browser.wait(lambda: browser.heading() == name, "the queue's page")

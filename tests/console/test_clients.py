"""Who is there: connections, channels and consumers (F7)."""

from __future__ import annotations

from urllib.parse import quote

import pika.exceptions
import pytest

from node.wire.amqp10 import definitions as d
from tests.console.browser import Browser
from tests.processes.amqp10_client import Amqp10Client
from tests.processes.conftest import Connect
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster
from tests.wire.amqp10.performatives import credit

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


def test_a_connection_of_amqp_1_0_has_its_links(browser: Browser, cluster: Cluster, name: str) -> None:
    with cluster[0].connect() as connection:
        connection.channel().queue_declare(name, durable=True)
    client = Amqp10Client(cluster[1], container_id=name)
    client.sends_to(name, handle=4)
    client.receives_from(name, handle=7)
    client.send(credit(12, handle=7, echo=True))
    client.expect(d.Flow)
    browser.sign_in(cluster[0])
    (row,) = [one for one in Management(cluster[0]).get("connections") if one["user_provided_name"] == name]
    browser.go(f"#/connections/{quote(row['name'], safe='')}", row["name"])
    rows = browser.wait(lambda: browser.rows() if "receiver-7" in browser.rows() else None, "the links")
    assert rows["receiver-7"] == ["0", "7", "node", name, "to", "no", "12", "0"]
    assert rows["sender-4"][:6] == ["0", "4", "client", "from", name, "no"]
    client.close()


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

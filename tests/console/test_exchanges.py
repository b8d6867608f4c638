"""Exchanges: the list, and one with its bindings (F7)."""

from __future__ import annotations

import pytest

from tests.console.browser import Browser
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]


def test_exchanges_are_listed_and_one_is_declared(browser: Browser, cluster: Cluster, name: str) -> None:
    browser.sign_in(cluster[0])
    browser.go("#/exchanges", "Exchanges")
    browser.wait(lambda: "amq.topic" in browser.rows(), "the exchanges")
    assert "the default exchange" in browser.rows()
    browser.complete(
        "Declare an exchange",
        "Declare",
        {"Name": name, "Type": "headers", "Arguments": '{"alternate-exchange": "amq.fanout"}'},
    )
    browser.wait(lambda: browser.rows().get(name, ["", ""])[1] == "headers", "the exchange is listed")
    declared = Management(cluster[1]).get("exchanges", "/", name)
    assert declared["arguments"] == {"alternate-exchange": "amq.fanout"} and declared["durable"]


def test_an_exchange_is_bound_published_to_and_deleted(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    one = channel(0)
    one.exchange_declare(name, "direct")
    one.queue_declare(name)
    browser.sign_in(cluster[1])
    browser.go(f"#/exchanges/%2F/{name}", name)
    browser.wait(lambda: "Nothing is bound" in browser.text(".empty"), "no bindings")
    assert browser.facts()["Type"] == "direct"
    browser.press("Publish")
    browser.fill("Routing key", "green")
    browser.fill("Payload", "leaf")
    browser.press("Publish")
    browser.wait(lambda: "No queue takes" in browser.text("dialog [role=alert]"), "it is not routed")
    browser.press("Cancel")
    browser.dialog_closes()
    browser.complete("Bind", "Bind", {"Named": name, "Routing key": "green"})
    browser.wait(lambda: browser.rows().get(name, [""])[0] == "green", "the binding is listed")
    browser.complete("Publish", "Publish", {"Routing key": "green", "Payload": "leaf"})
    assert one.basic_get(name, auto_ack=True)[2] == b"leaf"
    browser.complete("Delete", "Delete")
    browser.wait(lambda: browser.heading() == "Exchanges", "the list of exchanges")
    assert Management(cluster[0]).call("GET", path_of("exchanges", "/", name)).status == 404

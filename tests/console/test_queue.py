"""The page of one queue, and what can be done to it there (F7)."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.console.browser import Browser
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]


def filled(connect: Connect, name: str, count: int) -> None:
    channel = connect(0)
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for number in range(count):
        headers = {"number": number}
        channel.basic_publish("", name, b"body %d" % number, pika.BasicProperties(headers=headers))


def visit(browser: Browser, cluster: Cluster, name: str) -> None:
    browser.sign_in(cluster[0])
    browser.go(f"#/queues/%2F/{name}", name)
    browser.wait(lambda: browser.facts().get("State") == "running", "the queue's facts")


def ready(browser: Browser, count: int) -> None:
    browser.wait(lambda: browser.facts().get("Ready") == str(count), f"{count} messages are ready")


def get(browser: Browser) -> None:
    """Get messages, and wait for the answer: only one is asked for at a time."""
    browser.press("Get messages")
    browser.wait(lambda: browser.all(".inline button:enabled"), "the answer")


def test_a_queue_shows_where_it_is_and_what_is_in_it(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    filled(channel, name, 3)
    consuming = channel(1)
    consuming.basic_qos(prefetch_count=1)
    consuming.basic_consume(name, lambda *_: None, consumer_tag="reader")
    visit(browser, cluster, name)
    ready(browser, 2)
    facts = browser.facts()
    assert (facts["Type"], facts["Durable"], facts["Unacknowledged"]) == ("quorum", "yes", "1")
    owner = cluster.owner(name).name
    assert f"{owner} (owner)" in facts["Replicas"] and facts["Replicas"].count(",") == 2
    assert "x-queue-type" in facts["Arguments"]
    assert browser.all("main table") and "reader" in browser.text("main table")
    assert "the default exchange" in browser.text("main table")
    browser.wait(lambda: len(browser.all(".plot .line")) == 6, "lines of two plots")


def test_a_message_is_published_and_looked_at(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    filled(channel, name, 0)
    visit(browser, cluster, name)
    browser.press("Publish", within="//main")
    browser.fill("Payload", "<b>grün</b>")
    browser.fill("Headers", "[1]")
    browser.press("Publish")
    browser.wait(lambda: "must be a JSON object" in browser.text("dialog [role=alert]"), "what is wrong")
    browser.fill("Headers", '{"tenant": "eu"}')
    browser.fill("Further properties", '{"priority": 5}')
    browser.press("Publish")
    browser.dialog_closes()
    ready(browser, 1)
    get(browser)
    assert browser.facts(".message")["Redelivered"] == "no"
    shown = browser.facts(".message")
    assert (shown["headers"], shown["priority"], shown["delivery_mode"]) == ('{"tenant":"eu"}', "5", "2")
    assert browser.text(".message pre") == "<b>grün</b>"
    get(browser)
    assert browser.facts(".message")["Redelivered"] == "no", "a look is no delivery"
    browser.fill("What becomes of them", "ack_requeue_false")
    get(browser)
    ready(browser, 0)
    get(browser)
    assert "no message that is ready" in browser.text(".messages")


def test_messages_are_moved(browser: Browser, cluster: Cluster, channel: Connect, name: str) -> None:
    other = f"{name}-other"
    filled(channel, name, 450)
    filled(channel, other, 0)
    visit(browser, cluster, name)
    ready(browser, 450)
    browser.press("Move messages")
    browser.fill("To the queue", other)
    browser.fill("At most", "420")
    browser.press("Move")
    browser.wait(lambda: "420 messages moved" in browser.text("dialog [role=status]"), "they are moved")
    browser.press("Close")
    browser.dialog_closes()
    ready(browser, 30)
    method, _, body = channel(1).basic_get(other, auto_ack=True)
    assert (body, method.message_count) == (b"body 0", 419)


def test_messages_come_back_that_have_left(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    publisher = channel(0)
    publisher.queue_declare(name, durable=True, arguments={"x-history": "7D"})
    publisher.confirm_delivery()
    for number in range(5):
        publisher.basic_publish("", name, b"%d" % number, pika.BasicProperties(headers={"n": number}))
    publisher.queue_purge(name)
    visit(browser, cluster, name)
    browser.press("Bring back")
    browser.fill("Only those with", "n < 3")
    browser.fill("Published since", "1h")
    browser.press("Bring back")
    browser.wait(lambda: "3 messages brought back" in browser.text("dialog [role=status]"), "they are back")
    browser.press("Close")
    browser.dialog_closes()
    ready(browser, 3)


def test_dead_letters_are_published_anew(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    dead = f"{name}-dead"
    filled(channel, dead, 0)
    publisher = channel(0)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-queue-type": "quorum"}
    publisher.queue_declare(name, durable=True, arguments=arguments)
    publisher.basic_publish("", name, b"body")
    method, _, _ = publisher.basic_get(name)
    publisher.basic_reject(method.delivery_tag, requeue=False)
    visit(browser, cluster, dead)
    ready(browser, 1)
    browser.press("Publish anew")
    browser.press("Publish")
    browser.wait(lambda: "1 message published" in browser.text("dialog [role=status]"), "it is published")
    browser.press("Close")
    browser.dialog_closes()
    assert counted(cluster, name) == 1


def test_purging_asks_first(browser: Browser, cluster: Cluster, channel: Connect, name: str) -> None:
    filled(channel, name, 2)
    visit(browser, cluster, name)
    ready(browser, 2)
    browser.press("Purge")
    browser.wait(lambda: "there are 2 messages now" in browser.text("dialog"), "what would be lost")
    browser.press("Cancel")
    browser.dialog_closes()
    assert counted(cluster, name) == 2
    browser.complete("Purge", "Purge")
    ready(browser, 0)
    assert counted(cluster, name) == 0


def test_a_queue_is_bound_and_unbound(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    filled(channel, name, 0)
    visit(browser, cluster, name)
    browser.complete("Bind", "Bind", {"From the exchange": "amq.topic", "Routing key": "orders.#"})
    browser.wait(lambda: "orders.#" in browser.text("main table"), "the binding is listed")
    channel(1).basic_publish("amq.topic", "orders.eu", b"x")
    ready(browser, 1)
    browser.complete("Unbind", "Unbind")
    browser.wait(lambda: "orders.#" not in browser.text("main table"), "the binding is gone")


def test_a_queue_is_deleted_only_as_it_was_said(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    filled(channel, name, 1)
    visit(browser, cluster, name)
    browser.press("Delete")
    browser.tick("Only if it is empty")
    browser.press("Delete")
    browser.wait(lambda: "not empty" in browser.text("dialog [role=alert]"), "the node's refusal")
    browser.tick("Only if it is empty")
    browser.press("Delete")
    browser.dialog_closes()
    browser.wait(lambda: browser.heading() == "Queues", "the list of queues")
    assert Management(cluster[1]).call("GET", path_of("queues", "/", name)).status == 404


def counted(cluster: Cluster, name: str) -> Any:
    return Management(cluster[0]).get("queues", "/", name)["messages_ready"]

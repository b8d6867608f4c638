"""Every page of the console in a real browser, on real nodes (F7)."""

from __future__ import annotations

import pytest

from tests.console.browser import Browser
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
"""A name that is taken for HTML nowhere."""


def test_signing_in_and_out(browser: Browser, cluster: Cluster) -> None:
    browser.open(cluster[0])
    browser.fill("User", "guest")
    browser.fill("Password", "wrong")
    browser.press("Sign in")
    browser.wait(lambda: "Login failed" in browser.text("[role=alert]"), "the refusal is shown")
    browser.sign_in(cluster[0])
    assert browser.heading() == "Overview"
    browser.press("Sign out")
    browser.wait(lambda: browser.all("input[name=password]"), "somebody is to sign in")
    assert browser.run("return sessionStorage.length") == 0


def test_overview_shows_totals_plots_and_nodes(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    one = channel(0)
    one.queue_declare(name, durable=True)
    one.confirm_delivery()
    for _ in range(3):
        one.basic_publish("", name, b"x")
    browser.sign_in(cluster[1])
    browser.wait(lambda: len(browser.rows()) == 3, "three nodes")
    assert all(row[0] == "running" for row in browser.rows().values())
    browser.wait(lambda: len(browser.all(".plot .line")) == 6, "lines of two plots")
    ready = Management(cluster[0]).get("overview")["queue_totals"]["messages_ready"]
    assert ready >= 3
    browser.wait(lambda: f"Ready\n{ready:,}" in browser.text(".tile"), "as many messages as the API says")


def test_queues_are_found_by_name(browser: Browser, cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    for number in range(3):
        assert api.call("PUT", path_of("queues", "/", f"{name}-{number}"), {"durable": True}).status == 201
    browser.sign_in(cluster[0])
    browser.go("#/queues", "Queues")
    browser.run("document.querySelector('input[type=search]').focus()")
    browser.fill("Filter by name", f"{name}-1")
    browser.wait(lambda: list(browser.rows()) == [f"{name}-1"], "one queue is left")
    browser.fill("Filter by name", f"{name}-[02]$")
    browser.tick("Regular expression")
    browser.wait(lambda: list(browser.rows()) == [f"{name}-0", f"{name}-2"], "the others are left")
    # The page keeps its filter over a reload.
    browser.driver.refresh()
    browser.wait(lambda: list(browser.rows()) == [f"{name}-0", f"{name}-2"], "the others are left")


def test_a_queue_is_declared(browser: Browser, cluster: Cluster, name: str) -> None:
    browser.sign_in(cluster[0])
    browser.go("#/queues", "Queues")
    browser.press("Declare a queue")
    browser.fill("Name", SCRIPT + name)
    browser.fill("Messages expire after", "60000")
    browser.fill("Further arguments", "[]")
    browser.press("Declare")
    browser.wait(lambda: "must be a JSON object" in browser.text("dialog [role=alert]"), "what is wrong")
    browser.fill("Further arguments", '{"x-max-length-bytes": 5000}')
    browser.press("Declare")
    browser.dialog_closes()
    browser.wait(lambda: SCRIPT + name in browser.rows(), "the queue is listed, its name as it is")
    queue = Management(cluster[1]).get("queues", "/", SCRIPT + name)
    assert queue["arguments"] == {"x-message-ttl": 60000, "x-max-length-bytes": 5000}
    assert "quorate" in browser.driver.title


def test_what_the_node_refuses_is_shown_in_its_words(browser: Browser, cluster: Cluster, name: str) -> None:
    assert Management(cluster[0]).call("PUT", path_of("queues", "/", name), {"durable": True}).status == 201
    browser.sign_in(cluster[0])
    browser.go("#/queues", "Queues")
    browser.press("Declare a queue")
    browser.fill("Name", name)
    browser.tick("Durable")
    browser.press("Declare")
    browser.wait(lambda: "inequivalent arg 'durable'" in browser.text("dialog [role=alert]"), "the refusal")
    browser.press("Cancel")
    browser.dialog_closes()


def test_a_page_goes_on_when_its_node_is_back(browser: Browser, own_cluster: Cluster, name: str) -> None:
    browser.sign_in(own_cluster[0])
    browser.go("#/queues", "Queues")
    browser.wait(lambda: "There are no queues yet" in browser.text("main"), "nothing")
    own_cluster[0].kill()
    browser.wait(lambda: "does not answer" in browser.text(".banner"), "what is wrong")
    own_cluster[0].start()
    own_cluster[0].wait_ready()
    assert Management(own_cluster[1]).call("PUT", path_of("queues", "/", name), {}).status == 201
    browser.wait(lambda: name in browser.rows(), "it goes on by itself")
    assert browser.text(".banner").strip() == ""

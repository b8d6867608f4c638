"""Everything that a mouse can do is done with the keyboard alone (F7): WCAG 2.1.1, 2.1.2, 2.4.3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from tests.console.browser import Browser
from tests.console.test_queue import counted, filled
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]


@pytest.fixture
def keyboard(browser: Browser, cluster: Cluster) -> Iterator[Browser]:
    """Signed in with the keyboard; nothing that it is asked to press may be pressed with anything else."""
    browser.open(cluster[0])
    browser.tab_to("User")
    browser.type("guest", Keys.TAB, "guest", Keys.ENTER)
    browser.wait(lambda: browser.heading() == "Overview", "the console is there")
    yield browser
    assert browser.clicks() == 0


def choose(keyboard: Browser, text: str, title: str) -> None:
    """Follow a link of the page."""
    keyboard.tab_to(text)
    keyboard.type(Keys.ENTER)
    keyboard.wait(lambda: keyboard.heading() == title, f"the page {title}")


def visit(keyboard: Browser, name: str) -> None:
    """Find a queue in the list, and open it."""
    choose(keyboard, "Queues", "Queues")
    keyboard.tab_to("Filter by name")
    keyboard.type(name)
    keyboard.wait(lambda: list(keyboard.rows()) == [name], "the queue is found")
    choose(keyboard, name, name)
    keyboard.wait(lambda: keyboard.facts().get("State") == "running", "the queue's facts")


def in_dialog(keyboard: Browser, opener: str, title: str) -> None:
    """Open a dialog, which takes the focus and keeps it: Tab and Shift-Tab stay inside."""
    keyboard.tab_to(opener)
    keyboard.type(Keys.ENTER)
    keyboard.wait(lambda: keyboard.text("dialog h2") == title, f"the dialog {title}")
    for key in (Keys.TAB,) * 12 + (Keys.SHIFT + Keys.TAB + Keys.NULL,) * 12:
        keyboard.type(key)
        # The browser's own address bar is a stop between the last control and the first.
        assert keyboard.run(
            "const at = document.activeElement; return at === document.body || at.closest('dialog') !== null"
        )


def closed(keyboard: Browser, opener: str) -> None:
    """The dialog is gone, and the focus is where it came from."""
    keyboard.dialog_closes()
    assert keyboard.focused() == opener


def test_declaring_and_deleting(keyboard: Browser, cluster: Cluster, name: str) -> None:
    choose(keyboard, "Queues", "Queues")
    in_dialog(keyboard, "Declare a queue", "Declare a queue")
    keyboard.tab_to("Name")
    keyboard.type(name)
    keyboard.tab_to("Durable: survives a restart")
    keyboard.type(Keys.SPACE)
    keyboard.tab_to("Durable: survives a restart")
    keyboard.type(Keys.SPACE)
    keyboard.tab_to("Declare")
    keyboard.type(Keys.ENTER)
    closed(keyboard, "Declare a queue")
    assert Management(cluster[1]).get("queues", "/", name)["durable"]
    visit(keyboard, name)
    in_dialog(keyboard, "Delete", f"Delete {name}")
    # Escape closes the dialog, and the queue is still there to open it again.
    keyboard.type(Keys.ESCAPE)
    closed(keyboard, "Delete")
    in_dialog(keyboard, "Delete", f"Delete {name}")
    keyboard.tab_to("Delete")
    keyboard.type(Keys.SPACE)
    keyboard.wait(lambda: keyboard.heading() == "Queues", "the list")
    assert Management(cluster[1]).call("GET", path_of("queues", "/", name)).status == 404


def test_publishing_getting_and_purging(
    keyboard: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    filled(channel, name, 0)
    visit(keyboard, name)
    in_dialog(keyboard, "Publish", f"Publish to {name}")
    keyboard.tab_to("Payload")
    keyboard.type("typed")
    keyboard.tab_to("Publish")
    keyboard.type(Keys.ENTER)
    closed(keyboard, "Publish")
    keyboard.tab_to("What becomes of them")
    keyboard.type("L")
    keyboard.tab_to("Get messages")
    keyboard.type(Keys.ENTER)
    keyboard.wait(lambda: keyboard.text(".message pre") == "typed", "the message is shown")
    in_dialog(keyboard, "Purge", f"Purge {name}")
    keyboard.tab_to("Purge")
    keyboard.type(Keys.ENTER)
    closed(keyboard, "Purge")
    assert counted(cluster, name) == 0


def test_moving(keyboard: Browser, cluster: Cluster, channel: Connect, name: str) -> None:
    other = "where they go"
    filled(channel, name, 3)
    filled(channel, other, 0)
    visit(keyboard, name)
    keyboard.wait(lambda: keyboard.facts().get("Ready") == "3", "what is to be moved")
    in_dialog(keyboard, "Move messages", f"Move messages of {name}")
    keyboard.tab_to("To the queue")
    keyboard.type(other)
    keyboard.tab_to("Move")
    keyboard.type(Keys.ENTER)
    keyboard.wait(lambda: "3 messages moved" in keyboard.text("dialog [role=status]"), "they are moved")
    keyboard.type(Keys.ESCAPE)
    closed(keyboard, "Move messages")
    assert counted(cluster, other) == 3

"""Every page in both schemes under axe-core's rules for WCAG 2.2 AA, and with the keyboard alone (F7)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.console.browser import Browser
from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]

PACKAGES = Path(__file__).with_name("node")
QUEUE = "accessible"
PAGES = {
    "#/overview": "Overview",
    "#/cluster": "Cluster",
    "#/health": "Alarms and health",
    "#/queues": "Queues",
    f"#/queues/%2F/{QUEUE}": QUEUE,
    "#/exchanges": "Exchanges",
    "#/exchanges/%2F/amq.topic": "amq.topic",
    "#/connections": "Connections",
    "#/channels": "Channels",
    "#/consumers": "Consumers",
    "#/vhosts": "Virtual hosts",
    "#/vhosts/%2F": "Virtual host /",
    "#/users": "Users",
    "#/users/guest": "User guest",
    "#/definitions": "Definitions",
}

DIALOGS = {
    "#/queues": ["Declare a queue"],
    f"#/queues/%2F/{QUEUE}": ["Publish", "Move messages", "Purge", "Delete", "Bind"],
    "#/exchanges": ["Declare an exchange"],
    "#/exchanges/%2F/amq.topic": ["Publish", "Bind", "Delete"],
    "#/vhosts": ["Add a virtual host"],
    "#/vhosts/%2F": ["Set permissions", "Change", "Limits", "Delete"],
    "#/users": ["Add a user"],
    "#/users/guest": ["Set permissions", "Password and tags", "Limits", "Delete"],
}
"""Pages, and the buttons on them that ask for more."""

FILLED = "main table, main .facts, main form, main .empty"

RUN_AXE = """
const done = arguments[arguments.length - 1];
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
axe.run(document, { runOnly: { type: "tag", values: tags } }).then(({ violations }) =>
  done(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`)));
"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The locked axe-core, which the npm registry has, as one script."""
    directory = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / name, directory)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return (directory / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser, axe: str) -> list[str]:
    if not browser.run("return 'axe' in window"):
        # Through the browser's own tools: no page can load a script that is not the console's.
        browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    found: list[str] = browser.driver.execute_async_script(RUN_AXE)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_keeps_to_the_rules(
    browser: Browser, cluster: Cluster, channel: Connect, axe: str, scheme: str
) -> None:
    one = channel(0)
    one.queue_declare(QUEUE, durable=True)
    one.basic_consume(QUEUE, lambda *_: None)
    browser.colours(scheme)
    try:
        browser.open(cluster[0])
        assert violations(browser, axe) == []
        browser.sign_in(cluster[0])
        found = {}
        for place, title in PAGES.items():
            browser.go(place, title)
            browser.wait(lambda: browser.all(FILLED), f"{title} is filled")
            assert browser.text("[role=alert]").strip() == "", title
            found[title] = violations(browser, axe)
        assert not any(found.values()), found
    finally:
        browser.colours("light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_dialog_keeps_to_the_rules_and_gives_the_focus_back(
    browser: Browser, cluster: Cluster, channel: Connect, axe: str, scheme: str
) -> None:
    channel(0).queue_declare(QUEUE, durable=True)
    browser.colours(scheme)
    browser.sign_in(cluster[0])
    found = {}
    try:
        for place, openers in DIALOGS.items():
            browser.go(place, PAGES[place])
            browser.wait(lambda: browser.all(FILLED), f"{place} is filled")
            for opener in openers:
                browser.press(opener, within="//main")
                browser.wait(lambda: browser.all("dialog[open]"), f"the dialog of {opener}")
                found[place, opener] = violations(browser, axe)
                assert browser.run("return document.querySelector('dialog').contains(document.activeElement)")
                browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
                browser.dialog_closes()
                assert browser.run("return document.activeElement.textContent") == opener
        assert not any(found.values()), found
    finally:
        browser.colours("light")


def test_the_keyboard_is_enough(browser: Browser, cluster: Cluster) -> None:
    browser.sign_in(cluster[0])
    browser.driver.refresh()
    browser.wait(lambda: browser.heading() == "Overview", "the page")
    assert browser.run("return document.activeElement.tagName") == "H1"
    browser.run("document.querySelector('.skip').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "main"
    browser.run("document.querySelector('.drawing').focus()")
    plot = browser.driver.switch_to.active_element
    browser.wait(lambda: "Published" in str(plot.get_attribute("aria-label")), "the plot tells its values")
    plot.send_keys(Keys.ARROW_LEFT)
    assert ", now:" not in str(plot.get_attribute("aria-label"))

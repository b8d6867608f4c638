"""Debian's Chromium without a screen, and what a user does with a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.processes.nodes import Node, until

CHROMIUM = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDTH, HEIGHT = 1280, 800
PATIENCE_S = 20.0

STOPS = 80
"""No page has more controls than this."""

FOCUSED = """
const at = document.activeElement;
return at.getAttribute("aria-label") ?? at.labels?.[0]?.innerText ?? at.innerText ?? "";
"""

T = TypeVar("T")


class Browser:
    """One window."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.node: Node | None = None
        self.resize(WIDTH, HEIGHT)
        self.colours("light")

    def quit(self) -> None:
        self.driver.quit()

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def colours(self, scheme: str) -> None:
        """The colour scheme that the system prefers: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def forget(self) -> None:
        """End the session, if there is one, and what was chosen."""
        if self.node is not None:
            self.driver.execute_script("sessionStorage.clear(); localStorage.clear()")
        self.driver.get("about:blank")
        self.node = None

    def complaints(self) -> list[str]:
        """The browser's log of blocked contents and of errors in scripts since the last call."""
        lines = [(line["level"], line["message"]) for line in self.driver.get_log("browser")]
        # That the API refuses something is logged as well: what it says is for the tests to look at.
        return [text for level, text in lines if level == "SEVERE" and "/api/" not in text.split(" ", 1)[0]]

    # -- going ----------------------------------------------------------------------------------

    def open(self, node: Node, place: str = "") -> None:
        self.node = node
        self.driver.get(f"{node.http}/console/{place}")

    def sign_in(self, node: Node, user: str = "guest", password: str = "guest") -> None:
        self.open(node)
        self.fill("User", user)
        self.fill("Password", password)
        self.press("Sign in")
        self.wait(lambda: self.all("nav a"), "the console is there")

    def go(self, place: str, title: str) -> None:
        """Open a page by its hash, and wait until it shows what it loaded."""
        self.driver.execute_script("location.hash = arguments[0]", place)
        self.wait(lambda: self.heading() == title, f"the page {title}")

    def follow(self, text: str) -> None:
        self.one(By.XPATH, f"//a[normalize-space()={quoted(text)}]").click()

    # -- looking --------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], T | None], what: str, seconds: float = PATIENCE_S) -> T:
        def held() -> T | None:
            try:
                return condition()
            except StaleElementReferenceException:
                # The page went on between finding an element and asking it.
                return None

        return until(held, lambda: f"{what} (the page says: {self.text()[:600]!r})", seconds)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, by: str, value: str) -> WebElement:
        return self.wait(lambda: next(iter(self.driver.find_elements(by, value)), None), f"{value} is there")

    def text(self, selector: str = "body") -> str:
        return "\n".join(element.text for element in self.all(selector))

    def heading(self) -> str:
        return self.text("h1")

    def rows(self, table: int = 1) -> dict[str, list[str]]:
        """The cells of each row of one of the page's tables, by the text of the row's first cell."""
        rows: list[list[str]] = self.run(
            "return [...(document.querySelectorAll('main table')[arguments[0] - 1]?.tBodies[0]?.rows ?? [])]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))",
            table,
        )
        return {row[0]: row[1:] for row in rows}

    def facts(self, within: str = "main") -> dict[str, str]:
        """Names and values of all lists of them there."""
        pairs: list[list[str]] = self.run(
            "return [...document.querySelectorAll(`${arguments[0]} dt`)]"
            ".map((name) => [name.innerText, name.nextElementSibling.innerText])",
            within,
        )
        return {name: value for name, value in pairs[::-1]}  # noqa: C416

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    # -- doing ----------------------------------------------------------------------------------

    def field(self, label: str) -> WebElement:
        """The control that a label is for, of the dialog if one is open."""
        scope = "//dialog" if self.all("dialog") else ""
        name = self.one(By.XPATH, f"{scope}//label[starts-with(normalize-space(), {quoted(label)})]")
        return self.driver.find_element(By.ID, str(name.get_attribute("for")))

    def fill(self, label: str, text: str) -> None:
        control = self.field(label)
        if control.tag_name == "select":
            option = f"./option[@value={quoted(text)}]"
            control.find_element(By.XPATH, option).click()
            return
        control.send_keys(Keys.CONTROL, "a")
        control.send_keys(text or Keys.DELETE)

    def tick(self, label: str) -> None:
        self.field(label).click()

    def press(self, text: str, within: str = "") -> None:
        """Press a button, of the dialog if one is open, otherwise of the page or what the XPath selects."""
        scope = "//dialog" if self.all("dialog") else within
        said = f"normalize-space()={quoted(text)} or @aria-label={quoted(text)}"
        self.one(By.XPATH, f"{scope}//button[{said}]").click()

    # -- with the keyboard alone ----------------------------------------------------------------

    def type(self, *keys: str) -> None:
        """Press keys, one after the other, whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        """The name of the control with the focus for a screen reader: its label or its text."""
        return str(self.run(FOCUSED)).strip()

    def tab_to(self, name: str) -> None:
        """Press Tab until a control of this name has the focus."""
        passed = []
        for _ in range(STOPS):
            self.type(Keys.TAB)
            passed.append(self.focused())
            if passed[-1] == name:
                return
        raise AssertionError(f"Tab comes to no {name!r}, only to {passed}")

    def clicks(self) -> int:
        """How often a pointer was pressed since the page was loaded."""
        return int(self.run("return performance.eventCounts.get('pointerdown') ?? 0"))

    # -- dialogs and files ----------------------------------------------------------------------

    def download_to(self, directory: Path) -> None:
        """Save files there, without asking."""
        where = {"behavior": "allow", "downloadPath": str(directory)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)

    def complete(self, opener: str, confirm: str, fields: Mapping[str, str] = MappingProxyType({})) -> None:
        """Open a dialog of the page, fill it in, confirm it; returns when it is closed."""
        self.press(opener, within="//main")
        for label, text in fields.items():
            self.fill(label, text)
        self.press(confirm)
        self.dialog_closes()

    def dialog_closes(self) -> None:
        self.wait(lambda: not self.all("dialog"), "the dialog is closed")


def quoted(text: str) -> str:
    """A string of XPath 1.0, which knows no escapes."""
    if "'" not in text:
        return f"'{text}'"
    return "concat('" + "', \"'\", '".join(text.split("'")) + "')"

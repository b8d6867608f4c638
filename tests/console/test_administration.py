"""Virtual hosts, users, and definitions (F7)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.console.browser import Browser
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]


def test_a_virtual_host_is_added_described_and_deleted(browser: Browser, cluster: Cluster, name: str) -> None:
    browser.sign_in(cluster[0])
    browser.go("#/vhosts", "Virtual hosts")
    browser.complete("Add a virtual host", "Add", {"Name": name, "Description": "for a test"})
    browser.wait(lambda: browser.rows().get(name, [""])[0] == "for a test", "it is listed")
    browser.follow(name)
    browser.wait(lambda: browser.heading() == f"Virtual host {name}", "its page")
    browser.wait(lambda: browser.facts().get("Description") == "for a test", "its facts")
    browser.complete("Limits", "Set", {"max-queues": "3"})
    browser.wait(lambda: browser.facts()["Limits"] == "max-queues 3", "its limits")
    browser.press("Delete")
    browser.fill("To confirm", "another")
    browser.press("Delete")
    browser.wait(lambda: "That is not its name" in browser.text("dialog [role=alert]"), "it stays")
    browser.fill("To confirm", name)
    browser.press("Delete")
    browser.dialog_closes()
    browser.wait(lambda: browser.heading() == "Virtual hosts", "the list")
    assert Management(cluster[1]).call("GET", path_of("vhosts", name)).status == 404


def test_a_user_is_added_allowed_in_and_deleted(browser: Browser, cluster: Cluster, name: str) -> None:
    browser.sign_in(cluster[0])
    browser.go("#/users", "Users")
    browser.complete("Add a user", "Add", {"Name": name, "Password": "secret", "Tags": "monitoring"})
    browser.wait(lambda: browser.rows().get(name, [""])[0] == "monitoring", "the user is listed")
    browser.follow(name)
    browser.wait(lambda: browser.heading() == f"User {name}", "the user's page")
    browser.wait(lambda: "may enter no virtual host" in browser.text(".empty"), "no permissions")
    browser.complete("Set permissions", "Set", {"Configure": "^mine-"})
    browser.wait(lambda: browser.rows().get("/", [""])[:3] == ["^mine-", ".*", ".*"], "the permissions")
    assert Management(cluster[1], name, "secret").get("whoami")["name"] == name
    browser.complete("Password and tags", "Change", {"New password": "other"})
    assert Management(cluster[2], name, "other").get("whoami")["tags"] == ["monitoring"]
    browser.complete("Take", "Take")
    browser.wait(lambda: "may enter no virtual host" in browser.text(".empty"), "no permissions")
    browser.complete("Delete", "Delete")
    assert Management(cluster[1]).call("GET", path_of("users", name)).status == 404


def test_who_may_only_look_is_not_offered_more(browser: Browser, cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    api.call("PUT", path_of("users", name), {"password": "secret", "tags": "management"})
    api.call("PUT", path_of("permissions", "/", name), {"configure": "", "write": "", "read": ".*"})
    browser.sign_in(cluster[0], name, "secret")
    places = browser.text("nav").split("\n")
    assert "Queues" in places and not {"Cluster", "Users", "Definitions"} & set(places)
    browser.go("#/vhosts", "Virtual hosts")
    browser.wait(lambda: list(browser.rows()) == ["/"], "the virtual host that the user may enter")
    assert "Add a virtual host" not in browser.text("main")


@pytest.mark.requirement("F7.2", "F7.3")
def test_definitions_go_out_and_come_in(
    browser: Browser, cluster: Cluster, name: str, tmp_path: Path
) -> None:
    browser.download_to(tmp_path)
    browser.sign_in(cluster[0])
    browser.go("#/definitions", "Definitions")
    browser.fill("Of", "/")
    browser.press("Save as a file")
    browser.wait(lambda: "Saved:" in browser.text("[role=status]"), "it is saved")
    saved = tmp_path / "definitions.json"
    browser.wait(saved.exists, "the file")
    definitions = json.loads(saved.read_text(encoding="utf-8"))
    assert {"queues", "exchanges", "bindings"} <= definitions.keys()
    queue = {"name": name, "durable": True, "auto_delete": False, "arguments": {}}
    into = tmp_path / "into.json"
    into.write_text(json.dumps({"queues": [queue]}), encoding="utf-8")
    browser.field("File").send_keys(str(into))
    browser.fill("Into", "/")
    browser.press("Import")
    browser.wait(lambda: "Everything is imported" in browser.text("[role=status]"), "it is imported")
    assert Management(cluster[2]).get("queues", "/", name)["durable"]

"""The cluster's map, and its health (F7)."""

from __future__ import annotations

import pytest

from tests.console.browser import Browser
from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.console, pytest.mark.requirement("F7.4")]


def test_the_map_shows_owners_and_hands_over(
    browser: Browser, cluster: Cluster, channel: Connect, name: str
) -> None:
    channel(0).queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    declared = cluster.queue(name)
    assert declared is not None
    partition = str(declared["partition"])
    browser.sign_in(cluster[0])
    browser.go("#/cluster", "Cluster")
    browser.wait(lambda: partition in browser.rows(2), "the partition")
    roles = dict(zip(("n1", "n2", "n3"), browser.rows(2)[partition][3:6], strict=True))
    owner = cluster.owner(name).name
    assert roles.pop(owner) == "owner" and all("behind" in one or one == "in step" for one in roles.values())
    heir = min(roles)
    browser.complete(f"Hand over partition {partition}", "Hand over", {"New owner": heir})
    place = 3 + ("n1", "n2", "n3").index(heir)
    browser.wait(lambda: browser.rows(2)[partition][place] == "owner", "the new owner")
    assert cluster.owner(name).name == heir


def test_health_names_every_check_and_no_alarm(browser: Browser, cluster: Cluster) -> None:
    browser.sign_in(cluster[0])
    browser.go("#/health", "Alarms and health")
    browser.wait(lambda: browser.rows(), "the checks")
    assert "No alarms" in browser.text(".empty")
    checks = browser.rows()
    assert checks["This node serves clients"][0] == "passed"
    assert all(result in ("passed", "failed") for result, *_ in checks.values())
    assert len(checks) == 6

"""rascal on Node.js, which declares what its configuration says. Here where npm is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.programs import javascript
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Node


def ports(node: Node) -> tuple[str, str]:
    return str(node.amqp.port), str(node.local.config.listen.http.port)


@pytest.mark.requirement("A24.8", "A24.10")
def test_rascal_asserts_retries_and_buries(packages: Path, node: Node, elsewhere: Node, name: str) -> None:
    found = javascript(packages, "rascal_broker.js", *ports(node), *ports(elsewhere), name)
    assert found == {
        "seen": ["hopeless", "hopeless", "hopeless", "one", "two"],
        "buried": [["hopeless", "rejected"]],
        "waited": True,
    }
    # In the end `nuke` has deleted everything that was asserted, on all nodes.
    assert Management(elsewhere).call("GET", path_of("vhosts", name)).status == 404

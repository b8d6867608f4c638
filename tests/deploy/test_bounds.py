"""Every supervisor that stops a node gives it the time to leave in order."""

from __future__ import annotations

import re

from cluster.admin.traces.export import LAST_SPANS_S as LAST_SPANS_S
from cluster.cli.local.supervisor import STOP_GRACE_S
from cluster.process.departure import CLOSING_S, HANDOVER_S, RETURNING_S
from tests.structure.tree import ROOT

BOUND_S = HANDOVER_S + CLOSING_S + RETURNING_S + LAST_SPANS_S


def test_the_grace_of_containers_services_and_the_supervisor_is_long_enough() -> None:
    compose = (ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8")
    unit = (ROOT / "deploy" / "systemd" / "quorate.service").read_text(encoding="utf-8")
    grace = re.search(r"x-node:.*?stop_grace_period: (\d+)s", compose, re.DOTALL)
    timeout = re.search(r"TimeoutStopSec=(\d+)s", unit)
    assert grace is not None and timeout is not None
    assert min(float(grace[1]), float(timeout[1]), STOP_GRACE_S) > BOUND_S + 1.0

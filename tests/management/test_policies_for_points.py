"""No policy states a recovery point before all members know policies for recovery points (D13)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.admin.api.errors import ApiError
from cluster.admin.api.fields import Fields
from cluster.admin.api.policy_views import read_policy, set_policy
from cluster.config.formats import CHANGED_POINTS


def services(formats: int) -> Any:
    """A node of a cluster at this format level, where commands of the catalog are carried out at once."""
    return SimpleNamespace(formats=formats, submit=lambda command, arguments, answer: answer(True, None))


def made(definition: dict[str, Any], formats: int) -> bool:
    policy = read_policy("p", Fields({"pattern": "^q", "definition": definition}), operator=False)
    return asyncio.run(set_policy(services(formats), "/", policy, operator=False))


@pytest.mark.requirement("D13.1")
def test_a_recovery_point_is_refused_while_a_member_does_not_know_its_policies() -> None:
    assert made({"recovery-point": "epoch"}, CHANGED_POINTS)
    assert made({"max-length": 1}, CHANGED_POINTS - 1)
    with pytest.raises(ApiError, match=r"recovery-point: .*upgrade all nodes first") as refused:
        made({"recovery-point": "epoch"}, CHANGED_POINTS - 1)
    assert refused.value.status == 400

"""No view comes into the catalog before all members know views."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.admin.api.errors import ApiError
from cluster.admin.api.fields import Fields
from cluster.admin.api.views_over_queues import read_view_definition, set_view
from cluster.config.formats import FORMAT_LEVEL, VIEWS
from tests.site import Site


def services(*, known: bool) -> Any:
    """A node with a queue `q`, where commands of the catalog are carried out at once."""
    return SimpleNamespace(
        state=SimpleNamespace(queues={("/", "q"): SimpleNamespace(exclusive=False)}),
        front_end=SimpleNamespace(knows_views=known),
        submit=lambda command, arguments, answer: answer(command == "put_view", None),
    )


def test_a_view_is_refused_while_a_member_does_not_know_views() -> None:
    view = read_view_definition("v", Fields({"queue": "q", "fields": {"n": "COUNT(*)"}}))
    assert asyncio.run(set_view(services(known=True), "/", view))
    with pytest.raises(ApiError, match="upgrade all nodes first"):
        asyncio.run(set_view(services(known=False), "/", view))


def test_members_know_views_from_their_format_level_on() -> None:
    assert VIEWS <= FORMAT_LEVEL
    site = Site("n1")
    assert site.front_end("n1").knows_views
    site.nodes["n1"].broker.catalog.state.members.formats["n1"] = VIEWS - 1
    assert not site.front_end("n1").knows_views

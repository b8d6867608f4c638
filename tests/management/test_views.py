"""No view comes into the catalog before all members know views."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.admin.api.errors import ApiError
from cluster.admin.api.fields import Fields
from cluster.admin.api.views_over_queues import read_view_definition, set_view
from cluster.config.formats import FORMAT_LEVEL, VIEWS, VIEWS_OF_PARTS
from tests.site import Site


def services(*, known: bool = True, parts_known: bool = True, owners: int | str = 0) -> Any:
    """A node with a queue `q`, where commands of the catalog are carried out at once. A queue with several
    owners takes a view where the command says so.
    """
    arguments = {"x-owners": owners} if owners else {}
    queue = SimpleNamespace(exclusive=False, arguments=arguments)
    return SimpleNamespace(
        state=SimpleNamespace(queues={("/", "q"): queue}),
        front_end=SimpleNamespace(knows_views=known, knows_views_of_parts=parts_known),
        submit=lambda command, given, answer: answer(
            command == "put_view" and given.get("parts", False) is bool(owners), None
        ),
    )


def test_a_view_is_refused_while_a_member_does_not_know_views() -> None:
    view = read_view_definition("v", Fields({"queue": "q", "fields": {"n": "COUNT(*)"}}))
    assert asyncio.run(set_view(services(known=True), "/", view))
    with pytest.raises(ApiError, match="upgrade all nodes first"):
        asyncio.run(set_view(services(known=False), "/", view))


@pytest.mark.requirement("D15.2", "D20.7")
def test_a_view_over_several_owners_is_refused_while_a_member_does_not_know_such_views() -> None:
    view = read_view_definition("v", Fields({"queue": "q", "fields": {"n": "COUNT(*)"}}))
    assert asyncio.run(set_view(services(owners=2), "/", view))
    assert asyncio.run(set_view(services(parts_known=False), "/", view))
    with pytest.raises(ApiError, match="without views over queues with several owners"):
        asyncio.run(set_view(services(owners=2, parts_known=False), "/", view))


def test_members_know_views_from_their_format_level_on() -> None:
    assert VIEWS <= VIEWS_OF_PARTS <= FORMAT_LEVEL
    site = Site("n1")
    assert site.front_end("n1").knows_views
    assert site.front_end("n1").knows_views_of_parts
    site.nodes["n1"].broker.catalog.state.members.formats["n1"] = VIEWS_OF_PARTS - 1
    assert site.front_end("n1").knows_views
    assert not site.front_end("n1").knows_views_of_parts
    site.nodes["n1"].broker.catalog.state.members.formats["n1"] = VIEWS - 1
    assert not site.front_end("n1").knows_views

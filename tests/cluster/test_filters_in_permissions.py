"""Filters in the permissions of the catalog: how they are set, kept, lifted and read."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.access.control import Access
from cluster.catalog.access.records import Permission
from cluster.catalog.state import CatalogState
from node.refusal import PreconditionFailedError
from node.session.permissions import Scope
from tests.cluster.recorders import Silence, run_of
from tests.cluster.test_access import Desk

BOB = Scope("bob", "v")
PLACE = ("bob", "v", "c", "w", "r")


class FilteringDesk(Desk):
    """A desk whose cluster reads filters while it is `readable`."""

    readable = True

    def __init__(self) -> None:
        super().__init__()
        self.access = Access(self.state.access, self.submit, self.hashing, filters_read=lambda: self.readable)

    def permit(self, **filters: str) -> Any:
        return self.call(self.access.set_permissions, *PLACE, filters=filters)

    @property
    def permission(self) -> Permission:
        return self.state.access.permissions["v", "bob"]


@pytest.mark.requirement("D9.3")
def test_a_filter_stays_until_it_is_set_anew_or_lifted() -> None:
    desk = FilteringDesk()
    assert desk.permit(read_filter="/n = 1", write_filter="kind = 'x'") is True
    assert desk.permit() is False
    assert desk.permission == Permission("c", "w", "r", "/n = 1", "kind = 'x'")
    desk.permit(write_filter="")
    assert desk.permission == Permission("c", "w", "r", "/n = 1")
    assert desk.access.read_filter(BOB) and desk.access.kept_out(BOB, run_of(2)) == []
    desk.call(desk.access.clear_permissions, "bob", "v")
    desk.permit()
    assert desk.permission == Permission("c", "w", "r")
    assert desk.access.read_filter(BOB) == b""


@pytest.mark.requirement("D9.3")
@pytest.mark.parametrize("name", ["read_filter", "write_filter"])
def test_a_wrong_filter_is_refused_with_its_column(name: str) -> None:
    desk = FilteringDesk()
    with pytest.raises(PreconditionFailedError, match=rf"^{name}: unexpected '=' at column 6$"):
        desk.permit(**{name: "/n = = 1"})
    assert ("v", "bob") not in desk.state.access.permissions


@pytest.mark.requirement("D9.3")
def test_a_write_filter_tells_which_messages_it_keeps_out() -> None:
    desk = FilteringDesk()
    desk.permit(write_filter="/n = 1")
    assert desk.access.kept_out(BOB, run_of(3)) == [(0, 2)]
    assert desk.access.kept_out(Scope("bob", "/"), run_of(3)) == []
    assert desk.access.kept_out(Scope("alice", "v"), run_of(3)) == []


@pytest.mark.requirement("D9.3")
def test_the_rights_of_a_token_stand_in_the_place_of_filters() -> None:
    desk = FilteringDesk()
    desk.permit(read_filter="/n = 1", write_filter="/n = 1")
    rights: Any = Silence()
    by_token = Scope("bob", "v", rights)
    assert desk.access.read_filter(by_token) == b"" and desk.access.kept_out(by_token, run_of(3)) == []


@pytest.mark.requirement("D9.3")
def test_snapshots_and_commands_have_no_field_for_a_filter_that_is_not_set() -> None:
    """A release without filters reads neither."""
    desk = FilteringDesk()
    desk.readable = False
    desk.permit(read_filter="")
    assert b"filter" not in desk.commands[-1]
    plain = desk.state.access.to_plain()
    assert plain["permissions"][-1] == ["v", "bob", {"configure": "c", "write": "w", "read": "r"}]
    with pytest.raises(PreconditionFailedError, match="upgrade all nodes first"):
        desk.permit(read_filter="/n = 1")
    desk.readable = True
    desk.permit(read_filter="/n = 1")
    restored = CatalogState(desk.seen)
    restored.access.restore(desk.state.access.to_plain(), ())
    assert restored.access.permissions == desk.state.access.permissions


@pytest.mark.requirement("D9.3")
def test_a_filter_that_this_release_does_not_read_takes_nothing() -> None:
    desk = FilteringDesk()
    desk.do(
        "set_permissions", user="bob", vhost="v", configure="", write="", read="", write_filter="SOON(/n)"
    )
    assert desk.access.kept_out(BOB, run_of(3)) == [(0, 2)]

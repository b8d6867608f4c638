"""Paths to operations (F7)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.audience import Audience
from cluster.admin.api.errors import ApiError
from cluster.admin.api.operations import OPERATIONS
from cluster.admin.api.routing import Endpoint, Router


async def nothing(services: Any, call: Any) -> None:
    """Routing calls no handler."""


def router(*templates: str) -> Router:
    return Router(Endpoint("GET", template, Audience.MANAGEMENT, nothing) for template in templates)


TEMPLATES = (
    "/queues", "/queues/{vhost}", "/queues/{vhost}/{name}", "/queues/{vhost}/{name}/get",
    "/users/without-permissions", "/users/{name}", "/users/{name}/permissions",
)  # fmt: skip


def template_of(found: Any) -> str:
    operations, _ = found
    return str(operations["GET"].template)


@pytest.mark.parametrize(
    ("path", "template", "names"),
    [
        ("/queues", "/queues", {}),
        ("/queues/", "/queues", {}),
        ("/queues/%2F", "/queues/{vhost}", {"vhost": "/"}),
        ("/queues/%2f/a%2Fb%25", "/queues/{vhost}/{name}", {"vhost": "/", "name": "a/b%"}),
        ("/queues/v/get", "/queues/{vhost}/{name}", {"vhost": "v", "name": "get"}),
        ("/queues/v/q/get", "/queues/{vhost}/{name}/get", {"vhost": "v", "name": "q"}),
        ("/queues//", "/queues/{vhost}", {"vhost": ""}),
        ("/users/without-permissions", "/users/without-permissions", {}),
        ("/users/without-permissions/permissions", "/users/{name}/permissions",
         {"name": "without-permissions"}),
        ("/users/%E2%82%AC", "/users/{name}", {"name": "€"}),
    ],
)  # fmt: skip
def test_a_path_finds_its_template_and_its_names(path: str, template: str, names: dict[str, str]) -> None:
    found = router(*TEMPLATES).find(path)
    assert found is not None
    assert (template_of(found), found[1]) == (template, names)


@pytest.mark.parametrize("path", ["", "/", "/nothing", "/queues/v/q/get/more", "/users", "/Queues"])
def test_other_paths_find_nothing(path: str) -> None:
    assert router(*TEMPLATES).find(path) is None


@pytest.mark.parametrize("path", ["/queues/%", "/queues/%2", "/queues/%zz", "/queues/%ff", "/users/%C3%28"])
def test_escapes_that_are_no_text_are_a_bad_request(path: str) -> None:
    with pytest.raises(ApiError) as caught:
        router(*TEMPLATES).find(path)
    assert caught.value.status == 400


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_names_come_out_as_they_were_quoted(vhost: str, name: str) -> None:
    octets = [one.encode("utf-8", "ignore").decode() or "x" for one in (vhost, name)]
    found = router(*TEMPLATES).find("/queues/" + "/".join(quote(one, safe="") for one in octets))
    assert found is not None
    assert found[1] == dict(zip(("vhost", "name"), octets, strict=True))


@given(st.text(alphabet="/%2fFqueues.~ é\x00\\", max_size=60))
def test_hostile_paths_are_found_or_refused(path: str) -> None:
    try:
        Router(OPERATIONS).find(path)
    except ApiError as error:
        assert error.status == 400


def test_every_operation_is_documented_and_there_once() -> None:
    seen = [(operation.method, operation.template) for operation in OPERATIONS]
    assert len(seen) == len(set(seen))
    assert all(operation.handler.__doc__ for operation in OPERATIONS)
    for operation in OPERATIONS:
        path = operation.template.replace("{", "x").replace("}", "")
        found = Router(OPERATIONS).find(path)
        assert found is not None and found[0][operation.method] is operation


@pytest.mark.parametrize(
    ("tags", "allowed"),
    [
        ((), set()),
        (("impersonator",), set()),
        (("management",), {Audience.MANAGEMENT}),
        (("policymaker",), {Audience.MANAGEMENT, Audience.POLICYMAKER}),
        (("monitoring",), {Audience.MANAGEMENT, Audience.MONITORING}),
        (("other", "administrator"), set(Audience)),
    ],
)
def test_tags_say_who_may(tags: tuple[str, ...], allowed: set[Audience]) -> None:
    assert {audience for audience in Audience if audience.allows(tags)} == allowed

"""Arguments of queues that not every node of the cluster is known to carry out."""

from __future__ import annotations

from typing import Any

import pytest

from node.refusal import PreconditionFailedError
from node.session.filter_arguments import check_arguments_known

STREAM = {"x-queue-type": "stream"}


def check(arguments: dict[str, Any], unknown: str, *never_started: str) -> None:
    check_arguments_known("q", "/", arguments, lambda name: name != unknown, never_started)


def test_arguments_that_every_node_knows_pass_while_a_node_has_never_started() -> None:
    check({"x-max-length": 5, **STREAM}, "x-filter", "n3")


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        ({"x-filter": "a = 1"}, "x-filter"),
        (STREAM, "x-queue-type: stream"),
        ({"x-message-ttl": 5, **STREAM}, "x-message-ttl of a stream"),
    ],
)
def test_the_refusal_says_what_to_do(arguments: dict[str, Any], unknown: str) -> None:
    with pytest.raises(PreconditionFailedError) as older:
        check(arguments, unknown)
    assert str(older.value).endswith(
        f"a node of the cluster runs a release without {unknown}; upgrade all nodes first"
    )
    with pytest.raises(PreconditionFailedError) as new:
        check(arguments, unknown, "n2", "n3")
    assert str(new.value).endswith("try again when each node has started; n2, n3: never yet")

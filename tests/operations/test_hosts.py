"""Which Host headers a node answers to."""

from __future__ import annotations

import pytest

from cluster.admin.http.hosts import Hosts

MEMBERS = ["n1"]
HOSTS = Hosts(["broker.example", "Other."], lambda: MEMBERS)


@pytest.mark.parametrize(
    "header",
    [
        "", "localhost", "localhost:15672", "a.localhost", "127.0.0.1", "[::1]", "[fe80::1]:15672",
        "192.0.2.1:15672", "broker.example", "BROKER.EXAMPLE.:15672", "other:1", "n1", "N1:15672",
    ],
)  # fmt: skip
def test_names_of_the_node(header: str) -> None:
    assert HOSTS.knows(header)


@pytest.mark.parametrize(
    "header",
    [
        "evil.example", "evil.example:15672", "127.0.0.1.evil.example", "n2", "n1.evil",
        "broker.example.evil", "0x7f000001", "127.1", "[::1", "[n2]", "evil#localhost", ".", ":80",
    ],
)  # fmt: skip
def test_names_of_others(header: str) -> None:
    assert HOSTS.knows(header) is (header == "[::1")


def test_a_new_member_is_known_at_once() -> None:
    MEMBERS.append("n9")
    assert HOSTS.knows("n9")

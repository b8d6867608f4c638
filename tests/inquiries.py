"""Inquiries of nodes that ask each other in octets, without a network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cluster.admin.inquiry import Inquiry


def inquiries(names: Iterable[str]) -> dict[str, Inquiry]:
    """One for each node, by name. An answerer that fails fails the test."""
    found: dict[str, Inquiry] = {}

    def inquiry(name: str) -> Inquiry:
        def send(peer: str, parts: Any) -> bool:
            found[peer].receive(name, parts, 0.0)
            return True

        def failed(error: Exception, question: str) -> None:
            raise AssertionError(question) from error

        return Inquiry(name, send, lambda: found.keys() - {name}, failed)

    found.update((name, inquiry(name)) for name in names)
    return found

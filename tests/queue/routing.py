"""Routing by the definitions, without regard to speed."""

from __future__ import annotations

from collections.abc import Mapping

from node.routing.matching import Destination, DestinationKind


def queue(name: str) -> Destination:
    return Destination(DestinationKind.QUEUE, name)


def exchange(name: str) -> Destination:
    return Destination(DestinationKind.EXCHANGE, name)


def naive_topic(pattern: str, key: str) -> bool:
    def matches(words: list[str], rest: list[str]) -> bool:
        if not words:
            return not rest
        if words[0] == "#":
            return matches(words[1:], rest) or (bool(rest) and matches(words, rest[1:]))
        return bool(rest) and words[0] in ("*", rest[0]) and matches(words[1:], rest[1:])

    return matches(pattern.split(".") if pattern else [], key.split(".") if key else [])


def naive_headers(arguments: Mapping[str, object], headers: Mapping[str, object]) -> bool:
    def same(one: object, other: object) -> bool:
        kinds = [str if isinstance(each, bytes) else type(each) for each in (one, other)]
        texts = [each.decode() if isinstance(each, bytes) else each for each in (one, other)]
        return kinds[0] is kinds[1] and texts[0] == texts[1]

    hits = [
        name in headers and (value is None or same(value, headers[name]))
        for name, value in arguments.items()
        if not name.startswith("x-")
    ]
    return any(hits) if arguments.get("x-match") == "any" else all(hits)

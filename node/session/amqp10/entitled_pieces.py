"""Cuts a run of publishes by what its user may publish (the write filter of the user's permissions)."""

from __future__ import annotations

from collections.abc import Iterator

from node.session.permissions import Permissions, Scope
from node.wire.amqp10.effects import PublishEffect


def entitled_pieces(
    permissions: Permissions, scope: Scope, effect: PublishEffect
) -> Iterator[tuple[bool, PublishEffect]]:
    """(whether the user may publish the messages, the messages) in order. Messages that are rejected one by
    one: the link goes on. A refusal of others ends their transaction, or their link as they are settled, and
    is found with the publish.
    """
    kept_out = permissions.kept_out(scope, effect.run)
    if not kept_out or effect.transaction or not effect.first_tag:
        yield True, effect
        return
    at = 0
    for first, last in kept_out:
        if at < first:
            yield True, _piece(effect, at, first - at)
        yield False, _piece(effect, first, last + 1 - first)
        at = last + 1
    if at < effect.run.count:
        yield True, _piece(effect, at, effect.run.count - at)


def _piece(effect: PublishEffect, at: int, count: int) -> PublishEffect:
    run, tags = effect.run.slice(at, count), effect.tags[at : at + count]
    return PublishEffect(effect.link, run, effect.first_tag + at, effect.transaction, tags)

"""The order of the messages of a grant."""

from __future__ import annotations

from collections.abc import Mapping

from tests.queue.model_queue import Message


def check_order(ready: list[int], granted: list[int], messages: Mapping[int, Message], grouped: bool) -> None:
    """The first of the messages that are `ready` for a consumer are `granted`. A consumer of a `grouped`
    queue leaves groups to others, and messages keep their order in each group.
    """
    if not grouped:
        assert ready[: len(granted)] == granted
        return
    assert granted[0] == ready[0]
    assert [number for number in ready if number in set(granted)] == granted
    for group in {messages[number].group for number in ready}:
        of_group = [number for number in ready if messages[number].group == group]
        mine = [number for number in granted if messages[number].group == group]
        assert of_group[: len(mine)] == mine

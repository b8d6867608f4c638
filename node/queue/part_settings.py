"""The settings of the parts of a queue with several owners (docs/decisions/0074-several-owners.md). Pure."""

from __future__ import annotations

from typing import Final

from node.queue.settings import QueueSettings

_DIVIDED: Final = ("max_length", "max_length_bytes")
"""The limits that the parts share."""

_WITHOUT_EFFECT: Final = frozenset(("expires_ms", "deduplication_window_ms"))
"""Settings that need one place which sees the whole queue. Policies may ask for them."""


def settings_of_part(settings: QueueSettings, parts: int) -> QueueSettings:
    """The settings of each of the parts of a queue with `settings`. Limits on its length are divided, and
    rounded up.
    """
    asked = {field: value for field, value in settings.asked.items() if field not in _WITHOUT_EFFECT}
    for field in _DIVIDED:
        if field in asked:
            asked[field] = -(-asked[field] // parts)
    return QueueSettings(settings.semantics, **asked)

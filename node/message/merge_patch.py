"""JSON Merge Patch (RFC 7396): a publish that states what has changed alone, and the whole that it makes."""

from __future__ import annotations

import json
from typing import Any, Final

from node.message.json_body import MAX_DOCUMENT, json_document

EMPTY_OBJECT: Final = b"{}"
"""The document that a patch without a former value is merged into."""


def merged_body(former: bytes, patch: bytes) -> bytes | None:
    """The body that a patch makes of a former one. None where one of both is no JSON that `json_document`
    reads, the patch is no object, or the whole would have more than MAX_DOCUMENT octets.
    """
    target, change = json_document(former), json_document(patch)
    if target is None or not isinstance(change, dict):
        return None
    try:
        whole = json.dumps(
            _merged(target, change), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        octets = whole.encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return octets if len(octets) <= MAX_DOCUMENT else None


def _merged(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7396, section 2. Changes `target`."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = _merged(target.get(name), value)
    return target

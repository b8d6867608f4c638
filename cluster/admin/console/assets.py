"""The console's files, as they lie in the distribution, read once when a node starts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

FOLDER: Final = "static"
INDEX: Final = "index.html"

CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content types by ending, not guessed by aiohttp: browsers run a module under no other type."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `tag` is its entity tag (RFC 9110 §8.8.3), quotes included: another with every change."""

    content: bytes
    content_type: str
    tag: str


def read_assets() -> dict[str, Asset]:
    """Every file by its path below the console's, with `/` between the names."""
    return dict(_below(files(__package__) / FOLDER, ""))


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{prefix}{entry.name}/")
            continue
        content_type = CONTENT_TYPES.get(entry.name[entry.name.rfind(".") :])
        if content_type is not None:
            content = entry.read_bytes()
            digest = hashlib.blake2b(content, digest_size=12).hexdigest()
            yield prefix + entry.name, Asset(content, content_type, f'"{digest}"')

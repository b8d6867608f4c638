"""The errors of reading journals, and the rows that tell of damage."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

FAIL: Final = "fail"
"""`on_damage`: the first damage raises DamageError."""

REPORT: Final = "report"
"""`on_damage`: reading goes on behind damage, and the table `damage` has a row for each."""


class JournalReadError(Exception):
    """The base of the errors that reading a journal raises on purpose."""


class DamageError(JournalReadError):
    """Octets of a journal are not as a node wrote them. Names the file and the offset in octets."""

    def __init__(self, found: Damage) -> None:
        super().__init__(f"{found.file} is damaged at offset {found.offset}: {found.damage}")
        self.found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return DamageError, (self.found,)


class Damage(NamedTuple):
    """A row of the table `damage`: the octets from `offset` on and up to `end` were not read.

    `kind`: `header` of a segment, `records` that do not validate, `content` of a valid record that is
    malformed, `unsupported` format of a newer release.
    """

    node: str
    file: str
    segment: int
    offset: int
    end: int
    kind: str
    damage: str

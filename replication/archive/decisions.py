"""Decides which segments go into an archive, and which go out of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

PRESENT: Final = 1 << 32
"""The life of the journal that the node has now. Journals that the node has lost have lives from 1 on."""


class Archived(NamedTuple):
    """A segment in an archive. `changed_s`: when the last record was written, in seconds since the epoch."""

    life: int
    number: int
    octets: int
    changed_s: float


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """max_age_s: seconds since the last record, for each segment; 0: no limit. max_octets: of all segments
    together; 0: no limit. waiting_octets: of segments that stay in the journal because the archive has not
    taken them.
    """

    max_age_s: float = 0.0
    max_octets: int = 0
    waiting_octets: int = 1 << 30


def expired(
    kept: Iterable[Archived], limits: ArchiveLimits, now_s: float, short_octets: int = 0
) -> list[Archived]:
    """The segments that leave an archive, oldest first.

    now_s: seconds since the epoch. short_octets: the room that the disk of the journal lacks and the archive
    takes. The newest segment always stays: a limit may be smaller than one segment.
    """
    oldest_first = sorted(kept)
    total = sum(one.octets for one in oldest_first)
    gone: list[Archived] = []
    given_back = 0
    for one in oldest_first[:-1]:
        too_old = limits.max_age_s and one.changed_s + limits.max_age_s < now_s
        too_many = limits.max_octets and total - given_back > limits.max_octets
        if too_old or too_many or given_back < short_octets:
            gone.append(one)
            given_back += one.octets
    if oldest_first and limits.max_age_s and oldest_first[-1].changed_s + limits.max_age_s < now_s:
        gone.append(oldest_first[-1])
    return gone


class Archiving:
    """The segments of a journal that wait for its archive.

    failing: the last try failed; the next one comes after `retry_s` seconds, with the next segment, as the
    failure may be that of one segment. stored, lost: segments so far; those that were lost are in no archive.
    """

    def __init__(self, limits: ArchiveLimits, retry_s: float) -> None:
        self.failing = False
        self.stored = self.lost = 0
        self._limits = limits
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._waiting: dict[int, int] = {}
        self._storing: int | None = None

    @property
    def waiting_octets(self) -> int:
        """Octets of the journal that wait for the archive."""
        return sum(self._waiting.values())

    def offer(self, number: int, octets: int) -> None:
        """Take a segment in which nothing is alive. A segment that waits is not taken twice."""
        self._waiting.setdefault(number, octets)

    def next(self, now: float) -> int | None:
        """The segment to store now; None while one is being stored, after a failure, or without any.

        Call `done` or `failed` for it.
        """
        if self._storing is not None or now < self._retry_at:
            return None
        self._storing = next(iter(self._waiting), None)
        return self._storing

    def done(self, number: int) -> None:
        """The archive has the segment."""
        self._storing = None
        self._waiting.pop(number, None)
        self.stored += 1
        self.failing = False

    def failed(self, number: int, now: float) -> None:
        """The archive could not take the segment."""
        self._storing = None
        octets = self._waiting.pop(number, None)
        if octets is not None:
            self._waiting[number] = octets
        self.failing = True
        self._retry_at = now + self._retry_s

    def given_up(self) -> Iterator[int]:
        """The segments that the journal lets go without an archive, the longest waiting first: otherwise a
        full archive would fill the disk of the journal. The one that is being stored is not among them.
        """
        waiting = self.waiting_octets - self._waiting.get(self._storing or 0, 0)
        for number, octets in list(self._waiting.items()):
            if waiting <= self._limits.waiting_octets:
                return
            if number != self._storing:
                del self._waiting[number]
                waiting -= octets
                self.lost += 1
                yield number

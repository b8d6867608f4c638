"""The messages of a node that starts with an empty disk, their answers, and the message to a removed node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.peers.tags import ADMISSION

EMPTY_WORD: Final = b"empty"
ESTABLISHED: Final = b"established"
REMOVED: Final = b"removed"


@dataclass(frozen=True, slots=True)
class AdmissionQuestion:
    """A node with an empty disk asks whether the receiver's disk is empty as well."""

    def encode(self) -> list[bytes]:
        return [ADMISSION]


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    """Whether the sender's disk is empty as well."""

    empty: bool

    def encode(self) -> list[bytes]:
        return [ADMISSION, EMPTY_WORD if self.empty else ESTABLISHED]


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """The receiver is no member of the cluster any more."""

    def encode(self) -> list[bytes]:
        return [ADMISSION, REMOVED]


AdmissionMessage = AdmissionQuestion | AdmissionAnswer | NodeRemoved


def decode_admission(parts: Sequence[bytes]) -> AdmissionMessage | None:
    """The message; None for a word that this release does not know."""
    if len(parts) == 1:
        return AdmissionQuestion()
    word = bytes(parts[1])
    if word == REMOVED:
        return NodeRemoved()
    return AdmissionAnswer(word == EMPTY_WORD) if word in (EMPTY_WORD, ESTABLISHED) else None

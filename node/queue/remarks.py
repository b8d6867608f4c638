"""Octets about messages, which a queue keeps by sequence number for as long as it keeps the message
(docs/decisions/0045-octets-about-messages.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from node.ranges.octet_map import OctetMap
from node.ranges.range_set import Range


class Subject(IntEnum):
    """The kinds of octets about messages. Journals have the numbers: never renumber."""

    ANNOTATIONS = 1
    """The message annotations that consumers have given the message with the outcome modified: an encoded map
    of AMQP 1.0 (`node.wire.amqp10.modified`).
    """

    LINK = 2
    """The link that the message is leased to, beyond the life of its connection (`node.queue.link_leases`).
    The return of the message takes the octets away.
    """


class Remark(NamedTuple):
    """The live messages of the ranges have these octets from now on, in place of former ones; empty octets
    take former ones away.
    """

    queue: int
    subject: Subject
    ranges: list[Range]
    octets: bytes


Remarks = dict[Subject, OctetMap]
"""The octets about a queue's messages, by subject. No map is empty."""


def put_remark(remarks: Remarks, subject: Subject, ranges: Iterable[Range], octets: bytes) -> None:
    """Give messages that are in the queue these octets."""
    held = remarks.setdefault(subject, OctetMap())
    for part in ranges:
        if octets:
            held.set(*part, octets)
        else:
            held.remove(*part)
    if not held:
        del remarks[subject]


def drop_remarks(remarks: Remarks, ranges: list[Range]) -> None:
    """The messages of the ranges leave the queue."""
    for subject in [subject for subject, held in remarks.items() if held.remove_all(ranges) and not held]:
        del remarks[subject]

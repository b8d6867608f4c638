"""The tags of the messages between nodes: the first octet of a message's first part names its family.

Replication has tags of its own (`replication.host`, `replication.repair`). `cluster.peers.registry` lists the
messages of all families.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

Receiver = Callable[[str, Sequence[bytes], float], object]
"""Takes a message of one tag: the sending node, the parts, and the time now. Raises MessageError."""

OWNERSHIP: Final = b"A"
CATALOG_REPLICAS: Final = b"C"
CONTACTS: Final = b"H"
ADMISSION: Final = b"J"
TO_OWNER: Final = b"L"
MEMBERS: Final = b"M"
TO_FRONT_END: Final = b"O"
INQUIRY: Final = b"Q"
CLIENT_COUNTS: Final = b"U"
VOTES: Final = b"V"
SHORTAGE: Final = b"W"

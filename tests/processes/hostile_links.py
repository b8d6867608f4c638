"""Octets that hostile connections of AMQP 1.0 send."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import PLAIN, begin, credit, octets_of, receiver, sender

UNREAD: Final = "1.0: deliveries that nobody reads"
ENDLESS: Final = "1.0: a message without end"
MAY_STAY: Final = frozenset({UNREAD, ENDLESS})
"""A socket that is not read, and a message that closes its link alone, or waits for its next frame."""

LOGGED_IN: Final = octets_of(SASL_HEADER, PLAIN, AMQP_HEADER)
OPENED: Final = LOGGED_IN + octets_of(d.Open("hostile", max_frame_size=512), begin())

NESTED: Final = b"\xc0\x02\x01" * 20_000 + b"\x45"
"""Lists within lists."""

CROWDED: Final = b"\xf0\x00\x00\x00\x0a\xff\xff\xff\xff\x41"
"""An array of four billion values in a few octets."""


def frame(performative: bytes, size: int | None = None) -> bytes:
    """A frame of channel 0, whose size may be a lie."""
    whole = 8 + len(performative) if size is None else size
    return whole.to_bytes(4, "big") + b"\x02\x00\x00\x00" + performative


def scripts(chance: random.Random, queue: str) -> Sequence[tuple[str, Callable[[], bytes]]]:
    """(name, what makes the octets) of each kind."""
    opens = b"\x00\x53\x10"
    endless = [transfer(0, bytes(400), more=True)] + [transfer(None, bytes(400), more=True)] * 20
    unread = receiver(0, queue, snd_settle_mode=d.SenderSettleMode.SETTLED), credit(100_000)
    return (
        ("1.0: half a header", lambda: SASL_HEADER[: chance.randrange(5, 8)]),
        ("1.0: silence within SASL", lambda: SASL_HEADER),
        ("1.0: half a log-in", lambda: LOGGED_IN[: chance.randrange(9, len(LOGGED_IN) - 8)]),
        ("1.0: a wrong password", lambda: octets_of(SASL_HEADER, d.SaslInit("PLAIN", b"\0guest\0wrong"))),
        ("1.0: silence before Open", lambda: LOGGED_IN),
        ("1.0: garbage after SASL", lambda: LOGGED_IN + chance.randbytes(3000)),
        ("1.0: garbage after Open", lambda: OPENED + b"\0\0\2\0" + chance.randbytes(3000)),
        ("1.0: an oversized frame", lambda: OPENED + frame(b"", 0xFFFF_FFF0) + bytes(2000)),
        ("1.0: lists within lists", lambda: LOGGED_IN + frame(opens + NESTED[-6000:])),
        ("1.0: a crowded array", lambda: LOGGED_IN + frame(opens + CROWDED)),
        ("1.0: a transfer on no link", lambda: OPENED + transfer(0, handle=9) + octets_of(d.Close())),
        (ENDLESS, lambda: OPENED + octets_of(sender(0, queue)) + b"".join(endless)),
        (UNREAD, lambda: OPENED + octets_of(*unread)),
    )

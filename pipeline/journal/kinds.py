"""The kinds of operations, and of values in them (docs/journal-format.md, "Operations")."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class OpKind(IntEnum):
    """The first octet of an operation."""

    PUBLISH = 1
    SETTLE = 2
    RETURN = 3
    RETURN_FAILED = 4
    DISCARD = 5
    PURGE = 6
    MARK = 7
    ATTACH = 8
    DETACH = 9
    CREATE_QUEUE = 10
    DROP_QUEUE = 11
    FORGET = 12
    ANNOTATE = 13
    REMOVE = 14
    ATTACH_CONSUMER = 15
    REFUSE = 16
    TRANSFER = 17
    TRANSFERRED = 18
    SEAL_QUEUE = 19
    UNDER_LEASE = 20
    MODIFIED = 21
    REMARK = 22
    TARGET = 23
    RETURN_CANCELLED = 24
    REFER = 25
    ADVANCE = 26
    NOTE = 27
    LENT = 28
    EPOCH = 29
    REMEMBER_IDS = 30
    FORGET_IDS = 31
    TAKE = 32
    READER = 33
    ROWS = 34
    PREPARE = 40
    DECIDE = 41
    PREPARED = 42
    DECIDED = 43
    CONCLUDE = 44
    END = 45
    ABANDON = 46


EXPIRY, DUE, DEATH, ARRIVAL = 1, 3, 5, 9
"""Aspects of ANNOTATE whose values are, or have, a time."""

ASPECTS: Final = {
    EXPIRY: "expiry", 2: "priority", DUE: "due", 4: "group", DEATH: "death", 6: "size", 7: "cancels",
    8: "barrier", ARRIVAL: "arrival", 10: "key",
}  # fmt: skip

EXPIRED: Final = 2
REASONS: Final = {
    1: "rejected",
    EXPIRED: "expired",
    3: "maxlen",
    4: "delivery_limit",
    5: "replaced",
    6: "lent",
}
REASON_BITS: Final = 4

LINK: Final = 2
"""The subject of a REMARK that leases messages to a link."""

READER_MADE: Final = 1
"""The step of a READER that gives a subscription a max lag."""

STAGED: Final = 1
"""The step of an EPOCH that has a branch."""

TAKEN: Final = 1
"""The step of a TAKE that has messages."""

AT_MOST_ONCE: Final = 1
OWNER: Final = 0
"""The front end of an owner's own batches."""

ACTIONS: Final[dict[int, str]] = {
    OpKind.PUBLISH: "publish",
    OpKind.SETTLE: "settle",
    OpKind.RETURN: "return",
    OpKind.RETURN_FAILED: "return",
    OpKind.RETURN_CANCELLED: "return",
    OpKind.LENT: "return",
    OpKind.DISCARD: "discard",
    OpKind.PURGE: "purge",
    OpKind.MARK: "lease",
    OpKind.ATTACH: "ownership",
    OpKind.ATTACH_CONSUMER: "ownership",
    OpKind.DETACH: "ownership",
    OpKind.FORGET: "ownership",
    OpKind.CREATE_QUEUE: "queue",
    OpKind.DROP_QUEUE: "queue",
    OpKind.SEAL_QUEUE: "queue",
    OpKind.REMOVE: "remove",
    OpKind.REFER: "publish",
    OpKind.REFUSE: "refuse",
    OpKind.TRANSFER: "transfer",
    OpKind.TRANSFERRED: "transfer",
    OpKind.EPOCH: "transaction",
    OpKind.TAKE: "lease",
    OpKind.PREPARED: "transaction",
    OpKind.DECIDED: "transaction",
    OpKind.CONCLUDE: "transaction",
    OpKind.END: "transaction",
    OpKind.ABANDON: "transaction",
}
"""The action of each kind; `note` of all others. REMOVE, ANNOTATE and REMARK have the action of their
content where they expire messages, make them dead letters or lease them.
"""


def kind_name(kind: int) -> str:
    """The name of a kind, in lower case; `unknown(n)` for one of a newer release."""
    try:
        return OpKind(kind).name.lower()
    except ValueError:
        return f"unknown({kind})"

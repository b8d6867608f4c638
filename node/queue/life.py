"""The life of a message in a queue: its places, and the transitions between them.

`docs/queues.md` shows the table. The model tests fail on a transition that the table lacks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Place(StrEnum):
    """The place of a message, as the queue's owner knows it."""

    NEW = "new"
    """The message is on its way to the queue."""

    WITHHELD = "withheld"
    """A transaction has published the message, and its outcome is not known."""

    SCHEDULED = "scheduled"
    """The message's delay is not over, or the message rests after a failed delivery."""

    READY = "ready"
    HELD = "held"
    """A front end that has not answered the new owner yet may have the message."""

    LEASED = "leased"
    """A consumer or a reader has the message, or a transaction has settled it whose outcome is not known."""

    REMOVING = "removing"
    """The message is removed before its delivery, and the removal is not committed yet."""

    DEAD = "dead"
    """The queue has discarded the message, and it is on its way to the dead-letter exchange."""

    GONE = "gone"


class Transition(NamedTuple):
    """`durable` are the alternatives, of which each makes the transition durable: an operation of the log, or
    several of one entry with `+` between them. None where only the owner has the transition.
    """

    place: Place
    event: str
    to: Place
    durable: tuple[str, ...] = ()


N, W, S, R, H, L, X, D, G = Place

LIFE: Final[tuple[Transition, ...]] = (
    Transition(N, "published", R, ("PUBLISH",)),
    Transition(N, "published with a delay", S, ("PUBLISH + ANNOTATE",)),
    Transition(N, "in the stream before the queue was there", R, ("REFER",)),
    Transition(N, "lent by another owner", R, ("PUBLISH + LENT", "PUBLISH + LENT + ANNOTATE")),
    Transition(N, "refused by a full queue, as a dead letter", D, ("PUBLISH + ANNOTATE",)),
    Transition(N, "published in a transaction of several partitions", W, ("PUBLISH + PREPARED",)),
    Transition(N, "published in such a transaction with a delay", W, ("PUBLISH + PREPARED + ANNOTATE",)),
    Transition(W, "transaction committed", R, ("CONCLUDE",)),
    Transition(W, "transaction committed, with a delay", S, ("CONCLUDE",)),
    Transition(
        W,
        "transaction rolled back, or left out by the queue",
        G,
        ("CONCLUDE", "SETTLE + CONCLUDE"),
    ),
    Transition(S, "due", R),
    Transition(S, "due, and a former owner may have given it out", H),
    Transition(S, "a front end says that it has the message", L),
    Transition(S, "purged, or expired", G, ("PURGE", "REMOVE")),
    Transition(S, "expired, with a dead-letter exchange", D, ("ANNOTATE",)),
    Transition(S, "settled by another client, or by a consumer that had lost it", G, ("SETTLE",)),
    Transition(S, "rejected by a consumer that had lost it, with a dead-letter exchange", D, ("ANNOTATE",)),
    Transition(R, "taken by a reader", L, ("TAKE",)),
    Transition(R, "given to a consumer", L),
    Transition(R, "given to a consumer that does not acknowledge", X),
    Transition(R, "a front end says that it has the message", L),
    Transition(R, "purged, expired, replaced or over a limit", G, ("PURGE", "REMOVE")),
    Transition(R, "expired or over a limit, with a dead-letter exchange", D, ("ANNOTATE",)),
    Transition(R, "lent to another owner", D, ("ANNOTATE + TRANSFER", "RETURN + ANNOTATE + TRANSFER")),
    Transition(R, "settled by another client, or by a consumer that had lost it", G, ("SETTLE",)),
    Transition(R, "rejected by a consumer that had lost it, with a dead-letter exchange", D, ("ANNOTATE",)),
    Transition(R, "new owner", H),
    Transition(R, "new owner, by whose clock it is not due yet", S),
    Transition(H, "a front end says that it has the message", L),
    Transition(H, "all front ends have answered, and none has the message", R),
    Transition(H, "a front end that may have the message is lost", R, ("RETURN",)),
    Transition(H, "given back", R, ("RETURN", "RETURN_FAILED")),
    Transition(H, "given back, and rests", S, ("RETURN_FAILED + ANNOTATE",)),
    Transition(H, "settled", G, ("SETTLE", "DISCARD", "REMOVE")),
    Transition(H, "rejected or failed too often, with a dead-letter exchange", D, ("ANNOTATE",)),
    Transition(
        L, "settled, rejected, expired by a client or failed too often", G, ("SETTLE", "DISCARD", "REMOVE")
    ),
    Transition(
        L, "rejected, expired by a client or failed too often, with a dead-letter exchange", D, ("ANNOTATE",)
    ),
    Transition(L, "given back or cancelled, or the front end is lost", R, ("RETURN", "RETURN_FAILED")),
    Transition(L, "the front end greets again, and does not have the message", R),
    Transition(L, "given back, and another consumer that had lost it has it", L, ("RETURN", "RETURN_FAILED")),
    Transition(L, "lease lapsed", R, ("RETURN_FAILED",)),
    Transition(L, "lease lapsed, and rests", S, ("RETURN_FAILED + ANNOTATE",)),
    Transition(L, "given back or cancelled, and rests", S, ("RETURN_FAILED + ANNOTATE",)),
    Transition(L, "its link is lost, and the queue keeps the message for the link", L),
    Transition(L, "new owner, which keeps the message for its link", L),
    Transition(L, "time of the lost link is over, or cancelled", R, ("RETURN_FAILED",)),
    Transition(L, "new owner", H),
    Transition(L, "new owner, by whose clock it is not due yet", S),
    Transition(X, "removed", G, ("SETTLE",)),
    Transition(X, "new owner, the removal was not committed", R),
    Transition(X, "new owner, other messages may be with consumers", H),
    Transition(X, "new owner, by whose clock it is not due yet", S),
    Transition(D, "moved, lent, or there is nowhere to go", G, ("REMOVE", "TRANSFERRED")),
    Transition(G, "brought back by a client", R, ("REFER", "REFER + ANNOTATE")),
)
"""Messages that are in no log (transient messages of a replicated queue) have the same transitions without
the operations, and are gone with their owner.
"""

LEGAL: Final = frozenset((one.place, one.to) for one in LIFE)

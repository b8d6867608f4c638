"""Checks passwords, and hashes each as seldom as possible. docs/decisions/0019-log-ins-remembered.md

`PasswordChecks` remembers a password that was right until its user has another hash. Clients that bring the
same password at the same time wait for one hash. Pure: a `Hasher` has the random key, hashes, and answers
later.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from cluster.catalog.access.records import User
from cluster.config.passwords import without_verifier

LARGEST: Final = 32_768
"""Users whose passwords are remembered; each takes some 200 octets."""

WAITING: Final = 4096
"""Passwords that may wait on a node to be hashed. A node does not check further passwords."""

WAITING_OF_ORIGIN: Final = 1024
"""Passwords from one origin that may wait on a node to be hashed."""

DIGEST_KEY_BYTES: Final = 32
DIGEST_BYTES: Final = 32

Verdict = Callable[[bool | None], None]
"""Takes whether the password is right; None where too many passwords wait, or where hashing failed."""


class Hasher(Protocol):
    """Hashes off the event loop. Both methods answer later, in the thread of the event loop. The answer is
    None where there was not enough memory for the hash.
    """

    @property
    def key(self) -> bytes:
        """`DIGEST_KEY_BYTES` random octets of this process."""

    def hash(self, password: str, scram: bool, answer: Callable[[str | None], None]) -> None:
        """Answer with a new hash of a password; `scram`: with a verifier, if the password can have one."""

    def compare(
        self, stored: str | None, password: str, origin: str, user: str, answer: Callable[[bool | None], None]
    ) -> Callable[[], None]:
        """Answer whether `stored` is a hash of the password.

        A comparison with None takes as long as one with a hash, and matches no password. Origins take turns,
        and so do the users at one origin. Returns a function that withdraws the question: the `Hasher` does
        not answer a withdrawn question, unless its hash is just being made.
        """


class Remembered:
    """Passwords that were right before, of at most `largest` users. Hashes are without SCRAM verifiers, which
    users may get later with the same password.

    A password is kept as a digest under a key of this process, over the user and the stored hash too: once
    the user has another hash, the digest matches no password.
    """

    def __init__(self, key: bytes, largest: int = LARGEST) -> None:
        self._key = key
        self._largest = largest
        self._known: dict[str, tuple[str, bytes]] = {}

    def digest(self, user: str, stored: str, password: str) -> bytes:
        """The digest of a password for the user with this hash, of `DIGEST_BYTES` octets."""
        parts = [part.encode("utf-8", "surrogateescape") for part in (user, stored, password)]
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, framed, "sha256")

    def knows(self, user: str, digest: bytes) -> bool:
        """Whether the password of this digest was right before. False does not say that it is wrong."""
        known = self._known.get(user)
        return known is not None and hmac.compare_digest(known[1], digest)

    def remember(self, user: str, stored: str, digest: bytes) -> None:
        """Remember that the password of this digest is right; the user remembered first makes room."""
        self._known.pop(user, None)
        if len(self._known) >= self._largest:
            del self._known[next(iter(self._known))]
        self._known[user] = stored, digest

    def forget_changed(self, users: Mapping[str, User]) -> None:
        """Forget users that are gone, or have another hash."""
        changed = [
            user
            for user, (stored, _) in self._known.items()
            if user not in users or without_verifier(users[user].password_hash) != stored
        ]
        for user in changed:
            del self._known[user]

    def __len__(self) -> int:
        return len(self._known)


@dataclass(slots=True)
class Check:
    """A password that is being compared: the callers who wait, and the origins in whose turns it waits."""

    user: str
    stored: str | None
    digest: bytes
    answers: list[Verdict] = field(default_factory=list)
    withdrawals: dict[str, Callable[[], None]] = field(default_factory=dict)


class PasswordChecks:
    """The passwords that wait to be hashed, and the passwords that were right."""

    def __init__(self, hasher: Hasher) -> None:
        self.remembered = Remembered(hasher.key)
        self._hasher = hasher
        self._checks: dict[bytes, Check] = {}
        self._waiting: dict[str, int] = {}
        """The number of waiting passwords by origin."""
        self._total = 0

    def recognises(self, user: str, stored: str, password: str) -> bool:
        """Whether the password was right before."""
        remembered = self.remembered
        return bool(stored) and remembered.knows(user, remembered.digest(user, stored, password))

    def check(self, user: str, stored: str | None, password: str, origin: str, answer: Verdict) -> None:
        """Answer at once where the password was right before, in a later turn where it must be hashed.

        `stored` is the user's hash; None where there is no such user, or where the user has no password. The
        answer is None where too many passwords wait, of this origin or of all.
        """
        digest = self.remembered.digest(user, stored or "", password)
        if stored is not None and self.remembered.knows(user, digest):
            answer(True)
            return
        check = self._checks.get(digest)
        if check is None or origin not in check.withdrawals:
            # The password waits in the turn of each origin: a flood from one origin delays no other origin.
            if self._total >= WAITING or self._waiting.get(origin, 0) >= WAITING_OF_ORIGIN:
                answer(None)
                return
            if check is None:
                check = self._checks[digest] = Check(user, stored, digest)
            self._count(origin, 1)
            begun = check
            check.answers.append(answer)
            check.withdrawals[origin] = _nothing
            withdraw = self._hasher.compare(
                stored, password, origin, user, lambda right: self._compared(begun, right)
            )
            if origin in check.withdrawals:
                check.withdrawals[origin] = withdraw
            return
        check.answers.append(answer)

    def _compared(self, check: Check, right: bool | None) -> None:
        if self._checks.get(check.digest) is not check:
            # The password was compared in the turn of another origin, and all callers have been answered.
            return
        del self._checks[check.digest]
        if right and check.stored is not None:
            self.remembered.remember(check.user, check.stored, check.digest)
        withdrawals, check.withdrawals = check.withdrawals, {}
        for origin, withdraw in withdrawals.items():
            self._count(origin, -1)
            withdraw()
        for answer in check.answers:
            answer(right)

    def _count(self, origin: str, change: int) -> None:
        self._total += change
        here = self._waiting.get(origin, 0) + change
        if here:
            self._waiting[origin] = here
        else:
            del self._waiting[origin]


def _nothing() -> None:
    """Stands in until the `Hasher` has returned the function that withdraws the question."""

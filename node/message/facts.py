"""The facts of one message that expressions ask for, independent of the message's format."""

from __future__ import annotations

from typing import Protocol


class Facts(Protocol):
    """`unreadable`: a path into the body was asked for, and the body has no members.

    Values are None for a fact that the message lacks, and else bool, int, float, str or bytes.

    Octets that are UTF-8 are text. A value of another type than these, as a list, is an empty tuple.
    """

    @property
    def unreadable(self) -> bool: ...

    def standard(self, name: str) -> object:
        """A field of the message's header or properties by its name in AMQP 1.0, with underscores."""

    def application(self, name: str) -> object:
        """A property that the application has set."""

    def extension(self, name: str) -> object:
        """A property of a vendor, by its name with the vendor's domain (`quorate.x_exchange`)."""

    def in_body(self, path: tuple[str, ...]) -> object:
        """The value in the body at the end of a path of names of members and indexes of arrays, each from 0.
        The facts are those of the first message of their run.
        """

"""The base of the composite types that `scripts/generate_amqp10.py` generates (part 1, section 1.4)."""

from __future__ import annotations

from typing import ClassVar


class Composite:
    """A described list whose fields have names. `CODE` is its descriptor, `FIELDS` has the names in order."""

    __slots__ = ()
    CODE: ClassVar[int] = 0
    FIELDS: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # fields change

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({fields})"

    def encode(self) -> bytes:
        """The descriptor, and the list with each of its fields to the last, null or not.

        Some clients read the fields of a performative by their index, so trailing nulls are written.
        Raises ValueError for a field that its type cannot hold.
        """
        raise TypeError(f"{type(self).__name__} is not a type of the protocol")

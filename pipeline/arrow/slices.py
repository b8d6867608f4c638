"""Parts of octets as numbers and as Arrow arrays, without an object of Python for each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

PADDING: Final = 16
"""Zeros behind the octets: a number may be read at any place of them."""

LARGEST: Final = (1 << 31) - 1 - PADDING
"""The octets that the offsets of an array can tell."""

_WIDE: Final = {2: ">u2", 4: ">u4", 8: ">u8"}


class SlicedOctets:
    """Octets that are cut at many places at once. Places are arrays of integers, from 0 to `size`."""

    def __init__(self, *parts: Any) -> None:
        """The parts one behind the other. Raises OverflowError for more than `LARGEST` octets."""
        data = b"".join((*parts, bytes(PADDING)))
        self.size = len(data) - PADDING
        if self.size > LARGEST:
            raise OverflowError(f"{self.size} octets; {LARGEST} can be cut")
        self._buffer = pa.py_buffer(data)
        self._octets = np.frombuffer(data, np.uint8)
        # An array for each width, in which an element begins at every octet.
        self._wide = {
            width: np.ndarray((self.size + 1,), form, data, strides=(1,)) for width, form in _WIDE.items()
        }

    def numbers(self, at: Any, width: int = 1) -> Any:
        """The numbers of `width` octets, highest octet first, at these places: signed, of 64 bits."""
        found = self._octets.take(at) if width == 1 else self._wide[width][at]
        return found.astype(np.uint64 if width == 8 else np.int64).view(np.int64)

    def inside(self, at: Any) -> Any:
        """Places, with `size` for those that are not within the octets."""
        return np.minimum(at, self.size)

    def parts(self, starts: Any, ends: Any, present: Any = None) -> Any:
        """The octets between places, which ascend, as an array; null where `present` is false."""
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2], offsets[1::2] = starts, ends
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), self._buffer]
        )
        wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
        return pieces.take(pa.array(wanted, mask=None if present is None else ~present))


def texts_of(octets: Any) -> Any:
    """Octets as texts. Raises pyarrow.ArrowInvalid where some are no UTF-8."""
    return octets.cast(pa.string())


def repeated(values: list[Any], kind: Any, rows: Any, count: int) -> Any:
    """An array of `count` rows, each with the value that `rows` numbers. Equal values are one."""
    places: dict[Any, int] = {}
    numbers = [places.setdefault(value, len(places)) for value in values]
    if len(places) == 1:
        return pa.repeat(pa.scalar(values[0], kind), count)
    return pa.array(list(places), kind).take(pa.array(np.asarray(numbers, np.int32)[rows]))


def digits_of(prefixes: Any, numbers: Any) -> Any:
    """Texts of eight hexadecimal digits of a prefix and sixteen of a number, for each pair."""
    octets = np.empty((len(numbers), 12), np.uint8)
    octets[:, :4] = prefixes.astype(">u4").view(np.uint8).reshape(-1, 4)
    octets[:, 4:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    offsets = np.arange(0, 24 * len(numbers) + 1, 24, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(_DIGITS[octets])]
    )


_DIGITS: Final = np.frombuffer("".join(f"{octet:02x}" for octet in range(256)).encode(), np.uint16)
"""The two digits of each octet."""

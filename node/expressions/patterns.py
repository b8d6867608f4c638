"""The patterns of LIKE: `%` stands for any text, `_` for one character.

A match takes time in proportion to the text, whatever the pattern: a piece between two `%` is looked for from
left to right, and never again. Pieces with `_` are followed for all places at once, as the bits of a number
(Baeza-Yates and Gonnet, "A new approach to text searching").
"""

from __future__ import annotations

from typing import Final

ESCAPE: Final = "\\"
"""The escape character of the patterns in syntax trees."""


LONGEST_SEARCHED: Final = 16_384
"""A piece with `_` is not looked for in a longer text: each character costs a step."""

PatternPiece = list[str]
"""The characters of a piece; an empty text is any one character."""


class PatternError(ValueError):
    """The pattern ends with its escape character."""


def escaped(pattern: str, escape: str) -> str:
    """The pattern with the backslash as its escape character. `escape` is one character, or none.

    Raises PatternError.
    """
    found: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, "")
            if not following:
                raise PatternError("a pattern ends with its escape character")
            found.append(literal(following))
        elif character in ("%", "_"):
            found.append(character)
        else:
            found.append(literal(character))
    return "".join(found)


def literal(text: str) -> str:
    """The pattern, with the backslash as its escape character, that the text alone matches."""
    return text.replace(ESCAPE, ESCAPE * 2).replace("%", ESCAPE + "%").replace("_", ESCAPE + "_")


class LikePattern:
    """A pattern whose escape character is the backslash."""

    __slots__ = ("_least", "_pieces", "exact", "piece")

    def __init__(self, pattern: str) -> None:
        self._pieces: list[PatternPiece] = _pieces_of(pattern)
        self._least = sum(map(len, self._pieces))
        self.exact: str | None = None
        """The only text that matches; None where several do."""
        if len(self._pieces) == 1 and "" not in self._pieces[0]:
            self.exact = "".join(self._pieces[0])
        self.piece = max(["".join(piece) for piece in self._pieces if "" not in piece], key=len, default="")
        """A text that all matching texts contain."""

    def matches(self, text: str) -> bool | None:
        """Whether the text matches; None where it is too long to be searched."""
        if self.exact is not None:
            return text == self.exact
        pieces = self._pieces
        first, last, end = pieces[0], pieces[-1], len(text)
        if end < self._least or not _stands(first, text, 0):
            return False
        if len(pieces) == 1:
            return end == len(first)
        if not _stands(last, text, end - len(last)):
            return False
        at, end = len(first), end - len(last)
        for piece in pieces[1:-1]:
            if "" not in piece:
                found = text.find("".join(piece), at, end)
            elif end - at > LONGEST_SEARCHED:
                return None
            else:
                found = _find(piece, text, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return at <= end


def _pieces_of(pattern: str) -> list[PatternPiece]:
    """The pieces between the `%` of a pattern; empty ones only at its ends."""
    pieces: list[PatternPiece] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == ESCAPE:
            pieces[-1].append(next(characters, ESCAPE))
        elif character == "_":
            pieces[-1].append("")
        elif character == "%":
            if len(pieces) == 1 or pieces[-1]:
                pieces.append([])
        else:
            pieces[-1].append(character)
    return pieces


def _stands(piece: PatternPiece, text: str, at: int) -> bool:
    """Whether the piece stands at a place of the text, which is long enough."""
    return all(not character or text[at + i] == character for i, character in enumerate(piece))


def _find(piece: PatternPiece, text: str, at: int, end: int) -> int:
    """The first place from `at` on where the piece stands in front of `end`; -1 for none."""
    anywhere = 0
    for i, character in enumerate(piece):
        if not character:
            anywhere |= 1 << i
    places: dict[str, int] = {}
    for i, character in enumerate(piece):
        if character:
            places[character] = places.get(character, anywhere) | 1 << i
    begun, whole = 0, 1 << (len(piece) - 1)
    for i in range(at, end):
        begun = (begun << 1 | 1) & places.get(text[i], anywhere)
        if begun & whole:
            return i + 1 - len(piece)
    return -1

"""SASLprep (RFC 4013): names and passwords in the form in which both ends of SCRAM compare and hash them.

The tables are those of RFC 3454, in Python's module `stringprep`; normalization follows Unicode 3.2, as the
profile demands.
"""

from __future__ import annotations

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

PROHIBITED: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)
"""RFC 4013, section 2.3."""


class ProhibitedTextError(ValueError):
    """SASLprep takes no such text. The message does not show the text, which may be a password."""


def saslprep(text: str, stored: bool = False) -> str:
    """The prepared text. `stored`: the text is kept, so that unassigned code points are prohibited (RFC 3454,
    section 7).

    Raises ProhibitedTextError.
    """
    if text.isascii():
        prepared = text
    else:
        spaced = ("\x20" if stringprep.in_table_c12(one) else one for one in text)
        mapped = "".join(one for one in spaced if not stringprep.in_table_b1(one))
        prepared = ucd_3_2_0.normalize("NFKC", mapped)
    if any(prohibits(one) for one in prepared for prohibits in PROHIBITED):
        raise ProhibitedTextError("a prohibited character")
    if stored and any(map(stringprep.in_table_a1, prepared)):
        raise ProhibitedTextError("a character that Unicode 3.2 has not assigned")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """RFC 3454, section 6: text of one direction only, and right-to-left text from its first character to its
    last one.
    """
    if not any(map(stringprep.in_table_d1, text)):
        return
    if any(map(stringprep.in_table_d2, text)):
        raise ProhibitedTextError("characters of both directions")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ProhibitedTextError("right-to-left text that begins or ends with another character")

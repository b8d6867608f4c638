"""raftos ends each log entry with a newline byte, which its default encoding, MessagePack, contains.

Term 10 is the byte 0x0A. The reader also leaves each entry's own newline at its end, which MessagePack
takes for a second value; so the break is shown once as shipped, and once with that newline removed.
"""

from __future__ import annotations

from typing import Any

from evidence import raftos_directory, verdict


def read_back(name: str, serializer: Any, term: int) -> str:
    """What becomes of a log with one entry of `term` when it is opened again."""
    from raftos.storage import Log

    entry = {"term": term, "command": {"key": 1}}
    Log(name, serializer).write(**entry)
    try:
        entries = Log(name, serializer).cache
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read back unchanged" if entries == [entry] else f"read back as {entries}"


with raftos_directory():
    from raftos.serializers import MessagePackSerializer

    class WithoutNewline(MessagePackSerializer):  # type: ignore[misc]  # raftos has no types
        @staticmethod
        def unpack(data: bytes) -> Any:
            return MessagePackSerializer.unpack(data.removesuffix(b"\n"))

    shipped = read_back("shipped", MessagePackSerializer, 9)
    term_9 = read_back("term-9", WithoutNewline, 9)
    term_10 = read_back("term-10", WithoutNewline, 10)

verdict(
    "raftos' log separates entries by a byte that its encoding can contain",
    shipped != "read back unchanged" and term_9 == "read back unchanged" and term_10 != term_9,
    f"as shipped, any entry: {shipped}",
    f"without the trailing newline, an entry of term 9: {term_9}",
    f"without the trailing newline, an entry of term 10: {term_10}",
)

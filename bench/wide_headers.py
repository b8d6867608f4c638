"""The latency of a client beside floods of wide header tables: python -m bench.wide_headers [--rounds 3].

Four clients publish tables of 4,000 values as fast as the node lets them (bench.beside).
"""

from __future__ import annotations

from typing import Final

from bench.beside import compare
from bench.brokers import Address, BrokerError
from bench.quorate import Quorate
from bench.raw import RawClient, long, short

VALUES: Final = 4000
TABLES: Final = 7
"""So many tables, one after the other, are more than a connection remembers."""


def wide(number: int) -> bytes:
    """The fields of a table with values of its own."""
    return b"".join(short(f"{number}.{key}") + b"V" for key in range(VALUES))


def deep() -> bytes:
    """A wide table within tables."""
    fields = wide(0)
    for _ in range(6):
        fields = short("t") + b"F" + long(fields)
    return fields


def flood(address: Address, tables: list[bytes]) -> None:
    """Publish until the process is ended."""
    with RawClient(address) as client:
        try:
            while True:
                for table in tables:
                    client.publish("flooded", b"x", headers=table)
        except (BrokerError, OSError) as error:
            print(f"a flood has ended: {error}", flush=True)


def prepare(_: Quorate, client: RawClient) -> None:
    client.declare("flooded", "quorum")


def main() -> None:
    floods = {
        "one table": (flood, [wide(0)]),
        "different tables": (flood, [wide(number) for number in range(TABLES)]),
        "deep tables": (flood, [deep()]),
    }
    compare(__doc__, floods, prepare)


if __name__ == "__main__":
    main()

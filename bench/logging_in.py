"""The time of a log-in, with a hash of the password and without: python -m bench.logging_in [--rounds 3].

Each user logs in for the first time, when the node hashes the password, and then again, when the node knows
the password to be right. The time runs from the client's answer with the password to connection.tune. The
whole connection, from its socket to an open channel, is timed as well.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from bench.quorate import Quorate, temporary
from bench.raw import RawClient

USERS = 20
AGAIN = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    medians: dict[str, list[float]] = {}
    with temporary() as cluster:
        for number in range(rounds):
            users = [f"user-{number}-{user}" for user in range(USERS)]
            for user in users:
                cluster.put(f"users/{user}", {"password": user, "tags": ""})
                cluster.put(f"permissions/%2F/{user}", {"configure": "", "write": "", "read": ""})
            times = {"first": timed(cluster, users), "second": timed(cluster, users * AGAIN)}
            for which, (checks, whole) in times.items():
                medians.setdefault(f"{which} log-in", []).append(median(checks))
                medians.setdefault(f"connection with the {which} log-in", []).append(median(whole))
    for what, found in medians.items():
        each = ", ".join(f"{one:.2f}" for one in found)
        print(f"{what}: median {median(found):.2f} ms ({each})")


def timed(cluster: Quorate, users: list[str]) -> tuple[list[float], list[float]]:
    """The milliseconds of each log-in, and of each connection."""
    checks, whole = [], []
    for user in users:
        begun = time.monotonic()
        with RawClient(cluster.address(0), user) as client:
            whole.append((time.monotonic() - begun) * 1000)
            checks.append(client.login_s * 1000)
    return checks, whole


if __name__ == "__main__":
    main()

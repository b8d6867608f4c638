"""raftos forgets its vote each time it becomes a follower, so one term can have two leaders.

Figure 2 of the Raft paper: votedFor is persistent state, and a server votes at most once a term.
"""

from __future__ import annotations

import asyncio
from typing import Any

from evidence import ADDRESSES, Wire, raftos_directory, settle, verdict


async def two_leaders() -> list[tuple[str, str, int]]:
    """(name, role, term) of two candidates of one term that both ask the same voter."""
    from raftos.state import State

    wires = [Wire(own) for own in range(3)]
    states: list[Any] = [State(wire) for wire in wires]
    first, second, voter = states
    for state in states:
        state.start()
    # Two election timers fire before either candidate's request arrives: a split vote.
    first.to_candidate()
    second.to_candidate()
    await ask(first, wires[0], voter, wires[2])
    # The voter's process restarts; its directory is the one it had.
    voter.stop()
    voter = State(wires[2])
    voter.start()
    await ask(second, wires[1], voter, wires[2])
    found = [(state.id, type(state.state).__name__, state.storage.term) for state in (first, second)]
    for state in (first, second, voter):
        state.stop()
    return found


async def ask(candidate: Any, candidate_wire: Wire, voter: Any, voter_wire: Wire) -> None:
    """Carries the candidate's vote request to the voter and the voter's answer, if any, back."""
    requests = [
        message
        for message in candidate_wire.sent
        if message["type"] == "request_vote" and message["destination"] == ADDRESSES[2]
    ]
    voter_wire.sent.clear()
    voter.request_handler(requests[-1] | {"sender": (candidate_wire.host, candidate_wire.port)})
    await settle()
    for answer in voter_wire.sent:
        candidate.request_handler(answer | {"sender": ADDRESSES[2]})
    await settle()


with raftos_directory():
    leaders = asyncio.run(two_leaders())

verdict(
    "raftos forgets its vote each time it becomes a follower",
    [role for _, role, _ in leaders] == ["Leader", "Leader"] and len({term for _, _, term in leaders}) == 1,
    *(f"{name} is {role} of term {term}" for name, role, term in leaders),
)

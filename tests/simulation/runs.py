"""Runs one seed: its cluster, its faults, its end, and the report of a broken promise."""

from __future__ import annotations

import random
import traceback
from dataclasses import replace

from tests.simulation.cluster import FIVE, NAMES, Cluster, Shape
from tests.simulation.faults import Faults, disks_of, plan_of, shape_of
from tests.simulation.focus import Focus
from tests.simulation.membership import ChangingCluster
from tests.simulation.network import NetworkFaults
from tests.simulation.node import SimulatedNode
from tests.simulation.trials.examiner import KINDS
from tests.simulation.world import World

FAULTLESS_EVERY = 10
"""One of so many seeds has no faults, and is held to the strictest promises."""

LAPSES_EVERY = 4
"""One in so many seeds about consumers is about leases that lapse."""

MODIFICATIONS_EVERY = 4
"""One in so many seeds about consumers is about messages that links give back with annotations."""

RECOVERIES_EVERY = 8
"""One in so many seeds about consumers is about links that keep their deliveries."""

RESENDS_EVERY = 16
"""One in so many seeds about consumers is about links whose targets are kept."""

OF_ONE_KIND = (
    (512, 143, "histories"),
    (512, 175, "loans"),
    (512, 271, "refusals"),
    (512, 79, "refilling"),
    (512, 207, "feeding"),
    (32, 15, "cancels"),
    (128, 96, "histories"),
    (64, 52, "lingering"),
    (128, 31, "views"),
    (256, 223, "parts"),
    (64, 31, "loans"),
    (512, 88, "loans"),
    (32, 20, "backlogs"),
    (64, 36, "values"),
    (32, 4, "filters"),
    (32, 28, "bookmarks"),
    (64, 56, "gatherings"),
    (32, 24, "barriers"),
    (32, 16, "refusals"),
    (64, 40, "epochs"),
    (512, 63, "takes"),
    (512, 191, "takes"),
    (512, 447, "takes"),
    (32, 8, "cuts"),
    (64, 0, "streams"),
    (512, 160, "readers"),
    (256, 12, "parts"),
    (128, 12, "local queues"),
    (32, 12, "moves"),
    (512, 255, "refilling"),
    (128, 127, "filling"),
    (256, 32, "filling"),
)
"""(every, remainder, kind): the seeds about consumers with this remainder have trials of one kind."""

GRAVES_EVERY = 4
"""One in so many seeds about leases is about dead letters."""

FIVE_EVERY = 5
"""One of so many seeds has five founders."""
OFTEN_S, SELDOM_S = 0.15, 0.6
"""The mean times between two declarations: in seeds about leases, and in most others."""

OF_LEASES = ("one way", "link", "freeze", "suspension")
"""Faults in which a lease ends without notice to its holder."""

LEASING = 0.3
"""The share of the seeds with all faults that are about leases, too: clients declare often, leases are short
or long, and the faults of leases are more frequent.
"""


ANSWERS = (
    (("counts", "counts", "redeclarations"), "deposed owner"),
    (("room", "room", "room", "room"), "cornered owner"),
    (("removals", "removals", "removals"), "reset"),
)
"""The actions of clients in seeds about answers, and the only fault of these seeds, which makes an owner
answer that is deposed, or do something twice.
"""

UNRELIABLE = (
    ("lost consumers",),
    ("kill", "link", "reset"),
    ("isolated owner", "halves", "cornered owner", "freeze"),
)
"""The faults of seeds about targets that are kept, messages that clients give back, and backlogs."""

LAPSING = (("slow node",), ("slow node",), ("slow node", "kill", "isolated owner"))
"""The faults of seeds about leases that lapse."""

DISKS_EVERY = 5
"""One of so many seeds has disks that rot or fill up."""


class SeedFailure(AssertionError):
    """A seed has broken a promise. The text has all facts for the search of the cause."""

    def __init__(self, cluster: Cluster, cause: BaseException, bug: str | None, focus: Focus) -> None:
        seed = cluster.world.seed
        option = (f" --bug '{bug}'" if bug else "") + focus.option
        self.seed = seed
        self.cause = cause
        lines = [f"  {line}" for line in cluster.world.trace]
        if not isinstance(cause, AssertionError):
            lines += traceback.format_exception(cause)[-6:]
        super().__init__(
            "\n".join(
                [
                    f"seed {seed} at {cluster.world.now:.4f} s: {type(cause).__name__}: {cause}",
                    f"replay: python -m tests.simulation --seed {seed}{option}",
                    "last events:",
                    *lines,
                ]
            )
        )


def trials_of(chance: random.Random) -> tuple[tuple[str, ...], ...]:
    """The kinds of trials of each examiner: a seed has a few kinds, which it repeats often."""
    kinds = chance.sample(sorted(KINDS), chance.choice((1, 2, 3)))
    return tuple(tuple(kinds) for _ in range(chance.choice((0, 0, 1, 2))))


Plan = tuple[Shape, tuple[str, ...], float]
"""(the cluster's shape, the kinds of faults, the mean time between two faults in seconds)."""


def plan(seed: int, focus: Focus) -> Plan:
    """The plan of a seed."""
    chance = World(seed).chance("shape")
    faultless = seed % FAULTLESS_EVERY == 0 and focus in (Focus.EVERYTHING, Focus.MEMBERS)
    shape = shape_of(chance, faultless)
    kinds, interval_s = plan_of(chance)
    shape.declare_s = SELDOM_S
    if seed % FIVE_EVERY == FIVE_EVERY - 2:
        shape.names = FIVE
    match focus:
        case Focus.ELECTIONS:
            return _of_elections(seed, shape)
        case Focus.LEASES:
            return _of_leases(seed, shape)
        case Focus.ANSWERS:
            return _of_answers(seed, shape)
        case Focus.RESTARTS:
            return _of_restarts(seed, shape)
        case Focus.CONSUMERS:
            return _of_consumers(seed, shape)
        case Focus.COMMITS:
            return _of_commits(shape)
    return _of_everything(seed, shape, kinds, interval_s, members=focus is Focus.MEMBERS)


def _of_elections(seed: int, shape: Shape) -> Plan:
    if World(seed).chance("declares").random() < LEASING:
        shape.declare_s = OFTEN_S
    shape.settings = replace(shape.settings, max_append_bytes=1, election_timeout_s=0.25)
    return shape, ("ambush",), 1.0


def _of_leases(seed: int, shape: Shape) -> Plan:
    shape.declare_s = OFTEN_S
    shape.settings = replace(shape.settings, lease_s=0.3)
    shape.publishers = shape.consumers = 1
    if seed % GRAVES_EVERY == 1:
        shape.trials = (("late graves",),) * 4
        return (
            shape,
            World(seed).chance("graves").choice((("link",), ("link", "kill", "isolated owner"))),
            0.4,
        )
    shape.network = NetworkFaults(late=0.3, late_s=0.25)
    return shape, OF_LEASES, 0.3


def _of_answers(seed: int, shape: Shape) -> Plan:
    chance = World(seed).chance("answers")
    trials, fault = chance.choice(ANSWERS)
    shape.publishers, shape.trials = 1, tuple((kind,) for kind in trials)
    # Answers that wait for a declaration would hide those that come too early.
    shape.declare_s = 0.0
    return shape, (fault,), chance.choice((0.2, 0.4, 0.8))


def _of_restarts(seed: int, shape: Shape) -> Plan:
    chance = World(seed).chance("restarts")
    shape.transactors = chance.choice((0, 0, 2))
    late = chance.choice((0.0, 0.05, 0.3))
    shape.network = NetworkFaults(late=late, late_s=chance.choice((0.05, 0.25)))
    kinds = ("restarts in order", *chance.choice(((), ("slow node",), ("slow node", "slow disk"))))
    return shape, kinds, 0.2


def _of_consumers(seed: int, shape: Shape) -> Plan:
    shape.publishers, shape.seconds, shape.names = 1, 6.0, NAMES
    if seed % LAPSES_EVERY == 1:
        # Late messages cross others on their way.
        shape.trials, shape.network = (("lapses",),) * 5, NetworkFaults(late=0.3, late_s=0.05)
        return shape, World(seed).chance("lapses").choice(LAPSING), 0.8
    if seed % MODIFICATIONS_EVERY == 2:
        shape.trials = (("modifications",),) * 4
    elif seed % RECOVERIES_EVERY == 3:
        shape.trials = (("recoveries",),) * 4
    elif seed % RESENDS_EVERY == 7:
        # The seeds of before have the trial of before.
        kind = "posts" if seed % (2 * RESENDS_EVERY) >= RESENDS_EVERY else "resends"
        shape.trials = ((kind,),) * 4
        return shape, World(seed).chance("resends").choice(UNRELIABLE), 0.3
    elif found := [kind for every, rest, kind in OF_ONE_KIND if seed % every == rest]:
        shape.trials = ((found[0],),) * 4
        if found[0] == "refusals":
            # Acknowledgements that tell of refusals are lost, and later ones are not.
            shape.network = NetworkFaults(late=0.1, late_s=0.05, overflow=0.01)
        if found[0] in ("loans", "gatherings", "takes", "parts"):
            # Owners move by all faults, and entries are lost on their way to slow disks.
            return shape, *plan_of(World(seed).chance(found[0]))
        return shape, World(seed).chance(found[0]).choice(UNRELIABLE), 0.3
    else:
        shape.trials = (("groups",), ("groups",), ("groups",), ("groups",), ("returns", "single active"))
    return shape, ("lost consumers",), 0.2


def _of_commits(shape: Shape) -> Plan:
    shape.publishers, shape.transactors, shape.seconds = 1, 4, 6.0
    shape.network = NetworkFaults(late=0.3, late_s=0.05)
    return shape, ("stranded transactor",), 0.3


def _of_everything(
    seed: int, shape: Shape, kinds: tuple[str, ...], interval_s: float, *, members: bool
) -> Plan:
    if not members and World(seed).chance("declares").random() < LEASING:
        shape.declare_s = OFTEN_S
        shape.settings = replace(shape.settings, lease_s=World(seed).chance("leases").choice((0.3, 1.0)))
        kinds += OF_LEASES
    shape.transactors = World(seed).chance("transactions").choice((0, 0, 1, 3))
    shape.trials = trials_of(World(seed).chance("trials"))
    if shape.trials:
        shape.publishers, shape.consumers = 2, 5
    if seed % DISKS_EVERY == 1 and not members:
        kinds += disks_of(World(seed).chance("disks"))
    return shape, kinds, interval_s


def run_seed(
    seed: int, node_type: type[SimulatedNode] = SimulatedNode, bug: str | None = None,
    focus: Focus = Focus.EVERYTHING,
) -> Cluster:  # fmt: skip
    """Run one seed to its end. Raises SeedFailure."""
    shape, kinds, interval_s = plan(seed, focus)
    cluster = (ChangingCluster if focus is Focus.MEMBERS else Cluster)(seed, shape, node_type)
    try:
        cluster.start()
        faults = None if shape.faultless else Faults(cluster, kinds, interval_s)
        cluster.world.run(cluster.world.now + cluster.shape.seconds)
        if faults is not None:
            faults.stop()
        cluster.settle()
    except Exception as error:
        raise SeedFailure(cluster, error, bug, focus) from error
    return cluster

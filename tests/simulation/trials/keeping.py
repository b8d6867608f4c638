"""Deliveries that outlive their link: each message is handled once, and comes into its queue once, whichever
nodes are lost.
"""

from __future__ import annotations

from itertools import count

from tests.simulation.keepers import Keeper
from tests.simulation.links import LinkReceiver
from tests.simulation.node import SimulatedNode
from tests.simulation.posters import Poster
from tests.simulation.resenders import Resender
from tests.simulation.scripts import Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Fate, Received
from tests.simulation.trials.trial import PAUSE_S, Trial


def recoveries(trial: Trial) -> Steps:
    """A client handles each message once, over many connections to any nodes. Other consumers, which give
    back what they get, never get a message that the client has handled (B7).
    """
    chance = trial.chance
    publisher = trial.prover()
    yield trial.queue(publisher)
    bodies = numbered("m", chance.randint(1, 8))
    fate: Fate = yield publisher.publish("", trial.name, bodies)
    trial.expect(not fate.refused, "a message is refused")
    publisher.leave()
    trial.provers.remove(publisher)
    keeper = Keeper(trial.name, chance.randint(1, 6), chance)
    rivals: list[LinkReceiver] = []
    while len(keeper.done) < len(bodies):
        ready = trial.nodes.ready_nodes()
        if not keeper.connected and ready:
            keeper.begin(trial.nodes.place(chance.choice(ready)))
        elif keeper.attached and chance.random() < 0.1:
            chance.choice((keeper.drop, keeper.drop, keeper.close))()
        else:
            keeper.act()
        rivals = [one for one in rivals if one.alive]
        if ready and len(rivals) < 2 and chance.random() < 0.1:
            place = trial.nodes.place(chance.choice(ready))
            rivals.append(LinkReceiver(place, trial.name, chance.randint(1, 3), count(1)))
        for rival in rivals:
            _check(trial, keeper, rival)
        yield chance.choice((0.0, PAUSE_S, PAUSE_S, 4 * PAUSE_S))
    keeper.drop()
    for rival in rivals:
        rival.leave()


def resends(trial: Trial) -> Steps:
    """A client sends each message once, over many connections to any nodes: each is in the queue once (B7).
    Another consumer gives back what it gets.
    """
    chance = trial.chance
    publisher = trial.prover()
    yield trial.queue(publisher)
    publisher.leave()
    trial.provers.remove(publisher)
    bodies = numbered("m", chance.randint(3, 12))
    resender = Resender(trial.name, bodies, chance)
    rivals: list[LinkReceiver] = []
    while not resender.done:
        ready = _go_on(trial, resender, leaves=0.15)
        rivals = [one for one in rivals if one.alive]
        if ready and not rivals and chance.random() < 0.05:
            place = trial.nodes.place(chance.choice(ready))
            rivals.append(LinkReceiver(place, trial.name, chance.randint(1, 3), count(1)))
        for rival in rivals:
            for received in rival.deliveries:
                rival.release(received)
            rival.deliveries.clear()
        yield chance.choice((0.0, PAUSE_S, PAUSE_S, 4 * PAUSE_S))
    resender.drop()
    for rival in rivals:
        rival.leave()
    taker, taken = trial.prover(), list[Received]()
    yield from trial.take(taker, trial.name, bodies, taken)
    trial.check_taken(bodies, taken)


def posts(trial: Trial) -> Steps:
    """A client sends messages to two queues in transactions, over many connections to any nodes: each message
    is in its queue once, and a transaction takes effect wholly or not at all (B7, A19).
    """
    chance, queues = trial.chance, dict[str, list[str]]()
    for suffix in ("", " other"):
        publisher = trial.prover()
        yield trial.queue(publisher, suffix)
        publisher.leave()
        trial.provers.remove(publisher)
        queues[f"{trial.name}{suffix}"] = numbered(f"m{suffix}", chance.randint(2, 8))
    poster = Poster(queues, chance)
    while not poster.done:
        _go_on(trial, poster, leaves=0.08)
        yield chance.choice((0.0, PAUSE_S, PAUSE_S, 4 * PAUSE_S))
    poster.drop()
    for queue, bodies in queues.items():
        taker, taken = trial.prover(), list[Received]()
        yield from trial.take(taker, queue, bodies, taken)
        trial.check_taken(bodies, taken)


def _go_on(trial: Trial, client: Resender | Poster, *, leaves: float) -> list[SimulatedNode]:
    """Have a client connect, act, or leave with this probability. Returns the nodes that are ready."""
    ready = trial.nodes.ready_nodes()
    if not client.connected and ready:
        client.begin(trial.nodes.place(trial.chance.choice(ready)))
    elif client.connected and trial.chance.random() < leaves:
        client.drop()
    else:
        client.act()
    return ready


def _check(trial: Trial, keeper: Keeper, rival: LinkReceiver) -> None:
    """Check what a rival has got, and give it back. A rival that was out of reach may get late what others
    have had since.
    """
    if trial.chance.random() < 0.5:
        return
    for received in rival.deliveries:
        late = trial.nodes.given_up(rival.node.name, trial.began)
        mine = received.body in keeper.handled | keeper.done
        trial.expect(late or not mine, f"{received.body} comes to another consumer, and is the link's")
        rival.release(received)
    rival.deliveries.clear()

"""Random programs of a client and a queue with arguments, in simulated time, against a model."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.cluster.kinds import KINDS, lives_of
from tests.queue_model import DROP_HEAD, REJECT, REJECT_AS_DEAD_LETTER, Message, QueueModel, Terms
from tests.site import Delivery, Site

MARGIN_S = 0.08
"""The model checks nothing so shortly before or after a timed event, and makes no two events come so close to
each other: the model and the broker may put them in different orders.
"""

QUEUE, GRAVE = "q", "grave"

terms = st.builds(
    Terms,
    ttl=st.sampled_from((None, None, 0.4, 1.0)),
    length=st.sampled_from((None, None, 0, 1, 2, 4)),
    octets=st.sampled_from((None, None, 0, 8, 20)),
    overflow=st.sampled_from((DROP_HEAD, REJECT, REJECT_AS_DEAD_LETTER)),
    levels=st.sampled_from((None, 1, 3)),
    failures=st.sampled_from((None, 0, 1, 2)),
    window=st.sampled_from((None, 0.5, 2.0)),
    rest=st.sampled_from((None, None, 0.3)),
    longest_rest=st.just(0.5),
    without=st.sampled_from((None, None, 2, 3)),
    below=st.sampled_from((None, None, 2)),
    keys=st.sampled_from((None, 1, 2)),
)


def arguments_of(terms: Terms) -> dict[str, Any]:
    """The arguments of a client's declaration."""
    said = {
        "message_ttl": None if terms.ttl is None else int(terms.ttl * 1000),
        "max_length": terms.length,
        "max_length_bytes": terms.octets,
        "overflow": terms.overflow,
        "max_priority": terms.levels,
        "delivery_limit": terms.failures,
        "deduplication_window": None if terms.window is None else int(terms.window * 1000),
        "redelivery_backoff": None
        if terms.rest is None
        else {"initial": int(terms.rest * 1000), "maximum": int(terms.longest_rest * 1000)},
        "dead_letter_exchange": "",
        "dead_letter_routing_key": GRAVE,
        "filter": filter_of(terms),
        "key": None if terms.keys is None else f"/0 % {terms.keys}",
    }
    return {name: value for name, value in said.items() if value is not None}


def filter_of(terms: Terms) -> str | None:
    """The text of a queue's filter. The body of a message is an array with the message's number."""
    parts = [] if terms.without is None else [f"/0 % {terms.without} <> 0"]
    parts += [] if terms.below is None else [f"amqp.priority < {terms.below}"]
    return " AND ".join(parts) or None


class QueuePrograms(RuleBasedStateMachine):
    """The steps of one client. Hypothesis chooses them, and prints the shortest failing program."""

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ("n1",)

    def __init__(self) -> None:
        super().__init__()
        self.site = Site(*self.names, lives=lives_of(self.kind))
        self.client = self.site.client(self.names[-1])
        self.client.declare(GRAVE)
        self.deliveries: dict[Message, Delivery] = {}
        self.last = 0

    @initialize(said=terms)
    def declare(self, said: Terms) -> None:
        self.model = QueueModel(said)
        self.client.declare(QUEUE, **KINDS[self.kind], **arguments_of(said))

    def holding(self) -> bool:
        return bool(self.model.held)

    @property
    def now(self) -> float:
        return self.site.world.now

    @rule(sizes=st.lists(st.sampled_from((5, 5, 9)), min_size=1, max_size=3), mode=st.sampled_from((1, 2)))
    def publish_plainly(self, sizes: list[int], mode: int) -> None:
        self.publish(sizes, 0, None, None, None, mode)

    @rule(
        count=st.integers(1, 3),
        priority=st.integers(0, 4),
        ttl=st.sampled_from((None, None, 0.3, 0.8)),
        delay=st.sampled_from((None, None, 0.2, 0.6)),
        name=st.sampled_from((None, None, "one", "other")),
        mode=st.sampled_from((1, 2)),
    )
    def publish_with_properties(
        self, count: int, priority: int, ttl: float | None, delay: float | None, name: str | None, mode: int
    ) -> None:
        self.publish([5] * count, priority, ttl, delay, name, mode)

    def publish(
        self,
        sizes: list[int],
        priority: int,
        ttl: float | None,
        delay: float | None,
        name: str | None,
        mode: int,
    ) -> None:
        properties: dict[str, Any] = {"priority": priority, "delivery_mode": mode}
        if ttl is not None:
            properties["expiration"] = str(int(ttl * 1000))
        if delay is not None:
            properties["headers"] = {"x-delay": int(delay * 1000)}
        if name is not None:
            properties["message_id"] = name
        lives = [one for one in (ttl, self.model.terms.ttl) if one is not None]
        rest = delay or 0.0
        self.wait_for_room(rest, rest + min(lives, default=0.0), self.model.terms.window or 0.0)
        messages = [Message(self.last + place, size) for place, size in enumerate(sizes, 1)]
        self.last += len(messages)
        bodies = [(b"[%d]" % one.number).ljust(one.size) for one in messages]
        confirmed = self.client.confirms(self.client.publish(QUEUE, *bodies, **properties))
        for one in messages:
            one.priority, one.ttl, one.name, one.due = priority, ttl, name, self.now + (delay or 0.0)
        expected = self.model.publish(messages, self.now)
        assert confirmed == expected, f"{confirmed}, not {expected}"

    @rule(no_ack=st.booleans())
    def get(self, no_ack: bool) -> None:
        expected = self.model.take(keeps=not no_ack)
        got = self.client.get(QUEUE, no_ack=no_ack)
        came = None if got is None else number_in(got.body)
        assert came == (None if expected is None else expected.number)
        if got is not None and expected is not None:
            assert got.method.redelivered is expected.came_back
            told = got.headers.get("x-delivery-count", 0)
            assert told == (expected.failed if self.kind == "replicated" else 0)
            self.deliveries[expected] = got

    @precondition(holding)
    @rule(at=st.integers(0, 5), how=st.sampled_from(("ack", "reject", "nack", "give back", "give back")))
    def settle(self, at: int, how: str) -> None:
        message = self.model.held[at % len(self.model.held)]
        delivery = self.deliveries.pop(message)
        if how == "ack":
            self.client.ack(delivery)
            self.model.acknowledged(message)
        elif how == "give back":
            self.wait_for_room(self.model.rest_of(message))
            self.client.nack(delivery, requeue=True)
            self.model.given_back(message, self.now)
        else:
            (self.client.reject if how == "reject" else self.client.nack)(delivery, requeue=False)
            self.model.rejected(message)

    @rule(seconds=st.sampled_from((0.1, 0.3, 0.7)))
    def wait(self, seconds: float) -> None:
        self.site.run(seconds)

    @rule(what=st.sampled_from(("purge", "close", "delete")), said=terms)
    def interrupt(self, what: str, said: Terms) -> None:
        if what == "purge":
            assert self.client.purge(QUEUE) == self.model.purge()
        elif what == "delete":
            self.delete(said)
        elif self.kind != "exclusive":
            self.close()

    def close(self) -> None:
        """Close the connection: the client's unsettled messages go back."""
        self.wait_for_room(*map(self.model.rest_of, self.model.held))
        self.client.close()
        self.client = self.site.client(self.names[-1])
        for message in list(self.model.held):
            self.model.given_back(message, self.now)
        self.deliveries.clear()

    def delete(self, said: Terms) -> None:
        """Delete the queue, and declare it with other arguments: its messages are gone, and no dead
        letters.
        """
        self.client.delete(QUEUE)
        for message in self.model.held:
            self.client.ack(self.deliveries.pop(message))
        self.client.declare(QUEUE, **KINDS[self.kind], **arguments_of(said))
        self.model = QueueModel(said, dead=self.model.dead)

    def wait_for_room(self, *after: float) -> None:
        """Wait until no timed event of the model is near now, or near so many seconds after now."""
        known = self.model.deadlines()
        while any(abs(self.now + later - one) < MARGIN_S for later in (0.0, *after) for one in known):
            self.site.run(0.02)
        self.model.advance(self.now)

    @invariant()
    def the_broker_has_what_the_model_says(self) -> None:
        self.site.run(0.02)
        self.wait_for_room()
        assert self.client.depth(QUEUE) == len(self.model.ready)
        died = Counter(self.model.dead)
        self.model.dead.clear()
        self.site.until(lambda: self.client.depth(GRAVE) >= died.total())
        assert (found := Counter(map(died_of, self.client.drain(GRAVE)))) == died, f"{found}, not {died}"


def number_in(body: bytes) -> int:
    (number,) = json.loads(body)
    return int(number)


def died_of(dead: Delivery) -> tuple[int, str]:
    return number_in(dead.body), dead.headers["x-first-death-reason"]


@pytest.mark.requirement(
    "A24.1",
    "A24.3",
    "A24.4",
    "A24.5",
    "A24.6",
    "A24.7",
    "A24.8",
    "A24.9",
    "A24.11",
    "A24.13",
    "D9.2",
    "D16.1",
    "X1.2",
    "X1.3",
    "X1.5",
    "X2.1",
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_does_what_the_model_of_its_arguments_says(kind: str) -> None:
    machine = type(f"{kind.title()}QueuePrograms", (QueuePrograms,), {"kind": kind})
    run_state_machine_as_test(machine, settings=LIMITS)


LIMITS = settings(
    max_examples=15, stateful_step_count=25, derandomize=True,
    suppress_health_check=list(HealthCheck), print_blob=True, deadline=None,
)  # fmt: skip

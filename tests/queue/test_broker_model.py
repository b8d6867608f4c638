"""The model of whole brokers takes only transitions of the table of a message's life."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from node.queue.life import LEGAL, Place
from tests import life
from tests.broker_model import BrokerModel, Held

NEW, WITHHELD, SCHEDULED, READY, HELD, LEASED, REMOVING, DEAD, GONE = Place

WAYS = {
    (NEW, READY), (READY, LEASED), (READY, REMOVING), (REMOVING, GONE), (LEASED, GONE), (LEASED, READY),
    (READY, GONE), (READY, HELD), (HELD, READY), (LEASED, HELD), (HELD, LEASED),
}  # fmt: skip
"""The transitions of messages that programs of clients cause or observe."""


class Method(NamedTuple):
    redelivered: bool


class Got(NamedTuple):
    """`tests.broker_model.Received` by basic.get."""

    method: Method
    body: bytes


def get(model: BrokerModel, number: int, *, kept: bool = True, redelivered: bool = False) -> list[Held]:
    model.got(0, "a", Got(Method(redelivered), b"%d" % number), kept=kept)
    return [one for one in model.held if one.number == number]


def drive(model: BrokerModel) -> None:
    """Publish, get, settle and return messages, purge, and kill nodes twice."""
    queue = model.queues["a"]
    queue.published(model.numbers(6, 2))
    queue.published(model.numbers(2, 1))
    get(model, 1, kept=False)
    model.settled(get(model, 2), doubtful=False)
    model.back(get(model, 3))
    assert queue.ready == {3, 4, 5, 6, 7, 8}
    doubtful = get(model, 3, redelivered=True)
    get(model, 4)
    model.settled(doubtful, doubtful=True)
    queue.may_be_published(model.numbers(1, 2)[0])
    model.node_died()
    assert (queue.ready, queue.doubtful) == ({5, 6}, {3, 7, 8, 9})
    model.node_died()
    get(model, 5)
    queue.published(model.numbers(1, 1))
    model.node_died()
    model.cleared("a", 2)
    assert (queue.ready, queue.doubtful) == (set(), {3, 7, 8, 9, 10})
    assert queue.places[4] == {LEASED}


def test_the_model_walks_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "walked", set[tuple[Place, Place]]())
    drive(BrokerModel())
    assert life.walked == WAYS


@pytest.mark.parametrize(("place", "to"), sorted(WAYS))
def test_a_wrong_row_of_the_table_fails_the_model(
    monkeypatch: pytest.MonkeyPatch, place: Place, to: Place
) -> None:
    """The planted row has the transition of the right one to a wrong place."""
    monkeypatch.setattr(life, "LEGAL", LEGAL - {(place, to)} | {(place, WITHHELD)})
    with pytest.raises(AssertionError, match=f"from {place} to {to}"):
        drive(BrokerModel())


def test_a_message_that_is_gone_does_not_come_again() -> None:
    model = BrokerModel()
    model.queues["a"].published(model.numbers(1, 2))
    held = get(model, 1)
    with pytest.raises(AssertionError, match="1 came"):
        get(model, 1, redelivered=True)
    model.settled(held, doubtful=False)
    with pytest.raises(AssertionError, match="1 came"):
        get(model, 1, redelivered=True)

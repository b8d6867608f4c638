"""Class tx on a channel: what is held back, what a commit hands over, what a rollback gives back (A19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.settlements import Outcome, Settlement
from node.ranges.range_set import numbers_of
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from tests.wire.client import Client, opened, publish, returned, run_of

CONSUMER = 7


def transactional(*channels: int, limits: ConnectionLimits | None = None) -> Client:
    client = opened(*channels, limits=limits)
    for channel in channels:
        client.send((channel, m.TxSelect()))
        assert client.methods() == [m.TxSelectOk()]
    client.effects.clear()
    return client


def with_deliveries(count: int, **consume: int) -> Client:
    """A transactional channel that was sent messages with sequence numbers from 100 on."""
    client = transactional(1)
    client.consume(1, CONSUMER)
    client.deliver(CONSUMER, run_of([b"x"] * count), 100, False)
    client.output()
    client.connection.take_effects()
    client.effects.clear()
    return client


def commit(client: Client) -> e.CommitEffect:
    client.effects.clear()
    client.send((1, m.TxCommit()))
    return client.only(e.CommitEffect)


def commit_ok(client: Client) -> None:
    client.connection.reply(1, m.TxCommitOk())
    assert m.TxCommitOk() in client.methods()


# -- modes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "method", "text"),
    [
        ([], m.TxCommit(), "channel is not transactional"),
        ([], m.TxRollback(), "channel is not transactional"),
        ([m.TxSelect()], m.ConfirmSelect(), "cannot switch from tx to confirm mode"),
        ([m.ConfirmSelect()], m.TxSelect(), "cannot switch from confirm to tx mode"),
    ],
)
def test_a_method_of_another_mode_ends_the_channel(before: list[Method], method: Method, text: str) -> None:
    client = opened(1)
    client.send(*((1, one) for one in before))
    client.output()
    client.send((1, method))
    assert client.methods() == [
        m.ChannelClose(406, f"PRECONDITION_FAILED - {text}", method.CLASS_ID, method.METHOD_ID)
    ]


def test_selecting_twice_changes_nothing() -> None:
    client = transactional(1)
    client.send(publish(1, b"x"), (1, m.TxSelect()))
    assert client.methods() == [m.TxSelectOk()]
    assert [type(effect) for effect in client.effects] == [e.HoldPublish]


def test_another_channel_is_not_transactional() -> None:
    client = opened(1, 2)
    client.send((1, m.TxSelect()), publish(2, b"x"))
    assert isinstance(client.only(e.PublishEffect), e.PublishEffect)


# -- holding back -------------------------------------------------------------------------------


def test_publishes_are_routed_at_once_and_published_by_the_commit() -> None:
    client = transactional(1)
    client.send(publish(1, b"a", mandatory=True) + publish(1, b"b", key="other"))
    held = [effect for effect in client.effects if isinstance(effect, e.HoldPublish)]
    assert [(one.run.routing_key, one.mandatory) for one in held] == [("q", True), ("other", False)]
    assert commit(client) == e.CommitEffect(1, [])


def test_settlements_wait_for_the_commit_and_come_merged() -> None:
    client = with_deliveries(10)
    assert (
        client.send(
            (1, m.BasicAck(1)), (1, m.BasicAck(3)), (1, m.BasicNack(4, requeue=False)), (1, m.BasicReject(5)),
            (1, m.BasicAck(2)), (1, m.BasicAck(9, multiple=True)),
        )
        == []
    )  # fmt: skip
    assert commit(client).settled == [
        Settlement(CONSUMER, [(100, 102), (105, 108)], Outcome.ACCEPTED),
        Settlement(CONSUMER, [(103, 103)], Outcome.REJECTED),
        Settlement(CONSUMER, [(104, 104)], Outcome.RETURNED),
    ]


def test_what_is_settled_in_a_transaction_cannot_be_settled_twice_in_it() -> None:
    client = with_deliveries(3)
    client.send((1, m.BasicAck(2)), (1, m.BasicAck(2)))
    assert client.failed() == m.ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 2", 60, 80)
    assert client.only(e.ChannelClosed).unsettled == [(CONSUMER, [(100, 102)])]


def test_frames_behind_a_commit_wait_for_its_answer() -> None:
    client = transactional(1)
    client.send(publish(1, b"a"), (1, m.TxCommit()), publish(1, b"b"), (1, m.TxRollback()))
    assert [type(effect) for effect in client.effects] == [e.HoldPublish, e.CommitEffect]
    client.connection.reply(1, m.TxCommitOk())
    assert [type(effect) for effect in client.take_effects()] == [e.HoldPublish, e.Rollback]
    assert client.methods() == [m.TxCommitOk(), m.TxRollbackOk()]


@pytest.mark.requirement("A18.1")
def test_prefetch_has_room_again_only_after_the_commit() -> None:
    client = transactional(1)
    client.send((1, m.BasicQos(prefetch_count=2)))
    client.output()
    assert client.consume() == [e.Credit(CONSUMER, 2)]
    client.deliver(CONSUMER, run_of([b"x"] * 2), 1, False)
    client.output()
    assert client.send((1, m.BasicAck(2, multiple=True))) == []
    commit(client)
    commit_ok(client)
    assert client.connection.take_effects() == [e.Credit(CONSUMER, 4)]


def test_a_message_that_was_got_is_settled_by_the_commit() -> None:
    client = transactional(1)
    client.send((1, m.BasicGet("q")))
    client.connection.deliver_get(1, run_of([b"z"]), 9, False, 0, CONSUMER)
    client.send((1, m.BasicAck(1)))
    assert commit(client).settled == [Settlement(CONSUMER, [(9, 9)], Outcome.ACCEPTED)]


def test_a_cancelled_consumers_messages_are_settled_by_the_commit() -> None:
    client = with_deliveries(2)
    client.send((1, m.BasicAck(1)), (1, m.BasicCancel("t")))
    client.connection.reply(1, m.BasicCancelOk("t"))
    client.send((1, m.BasicAck(2)))
    assert commit(client).settled == [Settlement(CONSUMER, [(100, 101)], Outcome.ACCEPTED)]
    commit_ok(client)


# -- rollback -----------------------------------------------------------------------------------


@pytest.mark.requirement("A19.2", "A19.4")
def test_a_rollback_requeues_nothing_and_messages_can_be_acknowledged_again() -> None:
    client = with_deliveries(5)
    client.send((1, m.BasicAck(2)), (1, m.BasicNack(4, requeue=True)), publish(1, b"never"))
    assert client.send((1, m.TxRollback())) == [e.Rollback(1)]
    assert client.methods() == [m.TxRollbackOk()]
    client.send((1, m.BasicAck(5, multiple=True)))
    assert commit(client).settled == [Settlement(CONSUMER, [(100, 104)], Outcome.ACCEPTED)]


def test_recovery_leaves_out_what_the_transaction_has_settled() -> None:
    client = with_deliveries(3)
    client.send((1, m.BasicAck(2)))
    assert client.send((1, m.BasicRecover(True))) == [
        returned(1, CONSUMER, [(100, 100), (102, 102)]),
    ]
    client.send((1, m.TxRollback()), (1, m.BasicAck(2)))
    assert commit(client).settled == [Settlement(CONSUMER, [(101, 101)], Outcome.ACCEPTED)]


@pytest.mark.parametrize("end", ["close", "exception", "connection", "socket"])
def test_the_end_of_channel_or_connection_rolls_back(end: str) -> None:
    client = with_deliveries(3)
    client.send((1, m.BasicAck(2)), publish(1, b"never"))
    client.effects.clear()
    match end:
        case "close":
            client.send((1, m.ChannelClose(200)))
        case "exception":
            client.send((1, m.BasicAck(77)))
        case "connection":
            client.send((0, m.ConnectionClose(200)))
        case _:
            client.effects += client.connection.disconnected()
    assert client.only(e.Rollback).channel == 1
    whole = end not in ("close", "exception")
    closed = client.only(e.ConnectionClosed) if whole else client.only(e.ChannelClosed)
    assert closed.unsettled == [(CONSUMER, [(100, 102)])]


# -- answers ------------------------------------------------------------------------------------


class CommitRefusedError(Exception):
    code = 406
    ends_connection = False


def test_a_refused_commit_ends_the_channel_and_leaves_its_deliveries_to_the_shell() -> None:
    client = with_deliveries(3)
    client.send((1, m.BasicAck(2)))
    commit(client)
    client.connection.fail(1, CommitRefusedError("partial tx completion"))
    client.effects += client.connection.take_effects()
    told = client.failed()
    assert told == m.ChannelClose(406, "PRECONDITION_FAILED - partial tx completion", 90, 20)
    assert client.only(e.ChannelClosed).unsettled == [(CONSUMER, [(100, 100)]), (CONSUMER, [(102, 102)])]


def test_a_connection_that_ends_while_committing_leaves_the_deliveries_to_the_shell() -> None:
    client = with_deliveries(3)
    client.send((1, m.BasicAck(2)))
    commit(client)
    client.effects += client.connection.disconnected()
    assert client.only(e.ConnectionClosed).unsettled == [(CONSUMER, [(100, 100)]), (CONSUMER, [(102, 102)])]
    client.connection.reply(1, m.TxCommitOk())
    assert client.connection.take_effects() == []


# -- bounds -------------------------------------------------------------------------------------

SMALL = ConnectionLimits(first_window=2000, transaction_bytes=1000, transaction_operations=5)


def close_code(client: Client) -> int:
    (close,) = (one for one in client.methods() if isinstance(one, m.ConnectionClose))
    return close.reply_code


def test_octets_of_all_transactions_of_a_connection_are_bounded() -> None:
    client = transactional(1, 2, limits=SMALL)
    client.send(publish(1, bytes(400)), publish(2, bytes(400)))
    assert client.output() == []
    client.send(publish(1, bytes(400)))
    assert close_code(client) == 506


def test_a_single_message_may_be_of_any_size() -> None:
    client = transactional(1, limits=SMALL)
    client.send(publish(1, bytes(4000)))
    assert client.output() == []


def test_operations_of_a_transaction_are_bounded() -> None:
    client = transactional(1, limits=SMALL)
    client.consume(1, CONSUMER)
    client.deliver(CONSUMER, run_of([b"x"] * 12), 100, False)
    client.output()
    client.send(*((1, m.BasicAck(tag)) for tag in (1, 3, 5, 7, 9)))
    assert client.output() == []
    client.send((1, m.BasicAck(11)))
    assert close_code(client) == 506
    assert client.only(e.ConnectionClosed).unsettled == [(CONSUMER, [(100, 111)])]


@pytest.mark.parametrize("ending", [m.TxCommit(), m.TxRollback()])
def test_a_transaction_that_ended_leaves_room_for_the_next(ending: Method) -> None:
    client = transactional(1, limits=SMALL)
    for _ in range(10):
        client.send(publish(1, bytes(900)), (1, ending))
        client.connection.reply(1, m.TxCommitOk())
    assert not any(isinstance(one, m.ConnectionClose) for one in client.methods())


# -- all together -------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("anrcx"), st.integers(1, 20), st.booleans()), max_size=30))
def test_every_delivery_is_settled_once_or_still_unsettled(steps: list[tuple[str, int, bool]]) -> None:
    """Whatever a client does, a delivery is settled by exactly one commit, or given back at the end."""
    client = with_deliveries(20)
    open_tags, pending, settled = set(range(1, 21)), set[int](), list[int]()
    for step, tag, multiple in steps:
        if step in "anr" and tag in open_tags:
            multiple = multiple and step != "r"
            covered = {one for one in open_tags if one <= tag} if multiple else {tag}
            method = {
                "a": m.BasicAck(tag, multiple),
                "n": m.BasicNack(tag, multiple),
                "r": m.BasicReject(tag),
            }
            client.send((1, method[step]))
            open_tags, pending = open_tags - covered, pending | covered
        elif step == "c":
            for one in commit(client).settled:
                settled += [number - 99 for number in numbers_of(one.ranges)]
            commit_ok(client)
            pending = set()
        elif step == "x":
            client.send((1, m.TxRollback()))
            open_tags, pending = open_tags | pending, set()
    client.effects.clear()
    client.send((1, m.ChannelClose(200)))
    returned = [
        sequence - 99
        for _, ranges in client.only(e.ChannelClosed).unsettled
        for sequence in numbers_of(ranges)
    ]
    assert returned == sorted(open_tags | pending)
    assert sorted(settled + returned) == list(range(1, 21))

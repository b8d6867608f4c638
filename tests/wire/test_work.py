"""Each turn takes a share of a connection's input; the rest follows in its order (decision 0028)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.delivery.shares import LARGEST_DEBT, LEAST_PART, PACE_BURST_S, REQUEST_WORK, WorkShare
from node.refusal import AccessRefusedError
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.errors import ResourceExhaustedError
from node.wire.amqp091.fields import encode_table
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.properties import ORDINARY_VALUES
from tests.wire.client import Client, opened, publish

SHARE = ConnectionLimits().turn_work


def test_a_turn_takes_a_share_of_pipelined_requests_and_later_turns_the_rest() -> None:
    connection = opened().connection
    connection.take_output()
    connection.begin_turn(1)
    connection.receive(b"".join(encode_method(number, m.ChannelOpen()) for number in range(1, 1001)), 100.0)
    turns = [len(connection.channels)]
    while connection.has_input:
        assert connection.paused
        connection.begin_turn(1)
        turns.append(len(connection.channels) - sum(turns))
    assert sum(turns) == 1000
    assert max(turns) <= SHARE // REQUEST_WORK
    assert not connection.paused


def test_a_turn_takes_at_most_one_of_the_widest_header_tables() -> None:
    """The next turns make up for the work beyond the share."""
    connection = opened(1, limits=ConnectionLimits(wide_values_per_second=10**9)).connection
    connection.take_output()
    connection.begin_turn(1)
    wide = [{f"{number}.{key:018}": None for key in range(4000)} for number in range(5)]
    tables = [b"\x20\0" + encode_table(table) for table in wide]
    assert all(len(table) * 8 > SHARE for table in tables)
    effects = connection.receive(b"".join(publish(1, b"x", properties=table) for table in tables), 100.0)
    assert [type(effect) for effect in effects] == [e.PublishEffect]
    turns = []
    while connection.has_input:
        connection.begin_turn(1)
        turns.append([type(effect) for effect in connection.take_effects()])
    assert [one for one in turns if one] == [[e.PublishEffect]] * 4
    assert len(turns) > 4


def test_the_work_beyond_a_share_is_made_up_for_within_a_few_turns() -> None:
    share = WorkShare(100)
    share.took(1.0)
    turns = 0
    while share.used_up:
        share.renew(1)
        turns += 1
    assert turns == LARGEST_DEBT + 1


@pytest.mark.parametrize(("waiting", "part"), [(0, 1), (1, 1), (3, 3), (16, 16), (1000, LEAST_PART)])
def test_clients_divide_the_work_of_a_turn(waiting: int, part: int) -> None:
    share = WorkShare(1600)
    share.renew(waiting)
    share.done += 1600 // part - 1
    assert not share.used_up
    share.done += 1
    assert share.used_up


def test_plain_messages_of_a_read_are_taken_in_one_turn() -> None:
    connection = opened(1).connection
    piece = publish(1, b"x" * 100)
    connection.receive(piece * (256 * 1024 // len(piece)), 100.0)
    assert not connection.has_input


def test_nothing_is_taken_before_what_is_left_by_an_earlier_turn() -> None:
    """A request's answer comes while the share is used up: what the channel sent behind it comes first."""
    client = opened(1, limits=ConnectionLimits(turn_work=2 * REQUEST_WORK))
    connection = client.connection
    connection.take_output()
    connection.begin_turn(1)
    connection.receive(encode_method(1, m.QueueDeclare("first")) + publish(1, b"a"), 100.0)
    connection.receive(encode_method(2, m.ChannelOpen()) * 1, 100.0)
    connection.reply(1, m.QueueDeclareOk("first", 0, 0))
    assert connection.has_input
    connection.receive(publish(1, b"b"), 100.0)
    connection.take_output()
    connection.begin_turn(1)
    published = [
        bytes(effect.run.raw) for effect in connection.take_effects() if isinstance(effect, e.PublishEffect)
    ]
    assert b"".join(published) == publish(1, b"a") + publish(1, b"b")


FRAMES = st.one_of(
    st.builds(lambda n, body: publish(n, body), st.integers(1, 2), st.binary(max_size=3)),
    st.builds(lambda n: encode_method(n, m.BasicQos(0, 7)), st.integers(1, 2)),
    st.builds(
        lambda n, name: encode_method(n, m.QueueDeclare(name)), st.integers(1, 2), st.sampled_from("abc")
    ),
)


def carried_out(turn_work: int, frames: list[bytes]) -> dict[int, list[object]]:
    """The requests of each channel, where every request is answered in a later turn."""
    client: Client = opened(1, 2, limits=ConnectionLimits(turn_work=turn_work))
    connection = client.connection
    asked: dict[int, list[object]] = {1: [], 2: []}
    effects = connection.receive(b"".join(frames), 100.0)
    while effects or connection.has_input:
        waiting = []
        for effect in effects:
            if isinstance(effect, e.PublishEffect):
                asked[effect.run.channel].append(bytes(effect.run.raw))
            elif isinstance(effect, e.AnswerEffect):
                connection.reply(effect.channel, effect.method)
            elif isinstance(effect, e.Request):
                asked[effect.channel].append(effect.method)
                waiting.append(effect.channel)
        connection.take_output()
        for number in waiting:
            connection.reply(number, m.QueueDeclareOk("q", 0, 0))
        connection.begin_turn(1)
        effects = connection.take_effects()
    return {number: joined(each) for number, each in asked.items()}


def joined(asked: list[object]) -> list[object]:
    """Runs of messages that follow each other as one: where a turn ends changes no more than that."""
    whole: list[object] = []
    for one in asked:
        if isinstance(one, bytes) and whole and isinstance(whole[-1], bytes):
            whole[-1] += one
        else:
            whole.append(one)
    return whole


@given(st.lists(FRAMES, min_size=1, max_size=40), st.sampled_from([1, 200, REQUEST_WORK, 3 * REQUEST_WORK]))
@settings(max_examples=200)
def test_shares_change_neither_what_channels_ask_nor_its_order(frames: list[bytes], turn_work: int) -> None:
    assert carried_out(turn_work, frames) == carried_out(1 << 40, frames)


def wide(values: int, number: int) -> bytes:
    """Flags and value of a header table with so many values, which differs from those of other numbers."""
    return b"\x20\0" + encode_table({f"{number}.{key}": None for key in range(values)})


def published(effects: list[e.Effect]) -> int:
    """The number of messages in these effects."""
    return sum(effect.run.count for effect in effects if isinstance(effect, e.PublishEffect))


def taken(connection: Connection, piece: bytes, now: float) -> int:
    """Run turns until the connection has no input that may be taken; the number of messages published."""
    count = published(connection.receive(piece, now) if piece else connection.tick(now))
    while connection.has_input:
        connection.begin_turn(1)
        count += published(connection.take_effects())
    return count


@pytest.mark.parametrize(
    "same", [True, False], ids=["one table again and again", "each with a table of its own"]
)
def test_wide_header_tables_come_at_a_bounded_pace(same: bool) -> None:
    """The client is half a second ahead of its pace at most, and no later than its pace."""
    pace, values = 10_000, 1000
    client = opened(1, limits=ConnectionLimits(wide_values_per_second=pace))
    connection, cost = client.connection, values - ORDINARY_VALUES
    connection.take_output()
    pieces = [publish(1, b"x", properties=wide(values, 0 if same else number)) for number in range(40)]
    start = now = 100.0
    count = 0
    for piece in pieces:
        # The shell reads nothing from a client whose connection is paused.
        while connection.paused:
            before, now = now, connection.next_deadline()
            assert before < now <= before + cost / pace
            count += taken(connection, b"", now)
            assert (count - 2) * cost <= pace * (now - start + PACE_BURST_S) <= (count + 1) * cost
        count += taken(connection, piece, now)
    assert count >= len(pieces) - 1
    assert now - start >= (len(pieces) - 3) * cost / pace - PACE_BURST_S


def test_the_pace_of_a_wide_table_holds_back_no_ordinary_client() -> None:
    """Header tables of up to 128 values come at any rate."""
    connection = opened(1, limits=ConnectionLimits(wide_values_per_second=1)).connection
    connection.take_output()
    pieces = [publish(1, b"x", properties=wide(ORDINARY_VALUES, number)) for number in range(300)]
    assert sum(taken(connection, piece, 100.0) for piece in pieces) == 300
    assert not connection.paused


def test_a_connection_that_its_pace_holds_back_closes_at_once() -> None:
    connection = opened(1, limits=ConnectionLimits(wide_values_per_second=1)).connection
    connection.take_output()
    for number in range(2):
        connection.receive(publish(1, b"x", properties=wide(2 * ORDINARY_VALUES, number)), 100.0)
    assert connection.paused
    connection.close(ResourceExhaustedError("enough"))
    effects = connection.receive(encode_method(0, m.ConnectionCloseOk()), 100.0)
    assert any(isinstance(effect, e.CloseSocket) for effect in effects)


def test_a_client_far_ahead_of_its_pace_has_the_least_part_of_a_turn() -> None:
    """Its requests come one by one, between the turns of other clients."""
    connection = opened(2, limits=ConnectionLimits(refusals_per_second=3)).connection
    connection.receive(encode_method(2, m.QueueDeclare()), 100.0)
    connection.fail(2, AccessRefusedError("no"))
    connection.take_effects()
    connection.take_output()
    asked = b"".join(encode_method(number, m.ChannelOpen()) for number in range(3, 103))
    connection.begin_turn(1)
    before = len(connection.channels)
    connection.receive(asked, 100.0)
    ahead = len(connection.channels)
    connection.tick(100.2)
    connection.begin_turn(1)
    assert (ahead - before, len(connection.channels) - ahead) == (1, SHARE // REQUEST_WORK)


def test_channels_that_ask_in_vain_come_at_a_bounded_pace() -> None:
    """The client is half a second ahead of its pace at most, by the requests of one turn."""
    pace, asked = 20, 400
    connection = opened(limits=ConnectionLimits(refusals_per_second=pace)).connection
    channels = range(1, asked + 1)
    octets = b"".join(
        encode_method(number, m.ChannelOpen()) + encode_method(number, m.QueueDeclare("q"))
        for number in channels
    )
    start = now = 100.0
    refused = 0
    effects = connection.receive(octets, now)
    while refused < asked:
        requests = [effect for effect in effects if isinstance(effect, e.Request)]
        for request in requests:
            connection.fail(request.channel, AccessRefusedError("no"))
        refused += len(requests)
        effects = connection.take_effects()
        assert refused <= pace * (now - start + PACE_BURST_S) + SHARE // REQUEST_WORK
        if connection.has_input:
            connection.begin_turn(1)
            effects += connection.take_effects()
        elif refused < asked:
            assert connection.paused
            now = connection.next_deadline()
            effects += connection.tick(now)
    assert now - start >= (asked - SHARE // REQUEST_WORK) / pace - PACE_BURST_S

"""The functions in C and their twins in Python have the same results for whatever octets, and C's functions
read no octet beyond those that they were given.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import OWN_METHODS, Run
from node.wire.amqp091 import methods as m
from node.wire.amqp091 import native as functions
from node.wire.amqp091 import publish_path
from node.wire.amqp091.codec import encode_deliveries, encode_frame, encode_method
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.properties import PropertyChecks
from node.wire.amqp091.publish_path import Published, PublishPath
from node.wire.amqp091.routing_keys import by_key
from tests.wire import native
from tests.wire.client import publish, split
from tests.wire.property_lists import LISTS, SURE, VALID, mixed, ordinary, property_lists, short

FRAME_MAX = 4096
BODY_MAX = 3000
USER = "guest"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native.load(native.build("_contents", tmp_path_factory.mktemp("native"), "-O2"))


@st.composite
def inputs(draw: st.DrawFn) -> bytes:
    """Publishes on one channel, the first of which is valid; some of the others have a wrong octet, and the
    last one may be cut.
    """
    channel = draw(st.sampled_from([1, 258]))
    lists = draw(st.lists(property_lists() | ordinary, min_size=1, max_size=3))
    keys = draw(st.sampled_from([["q"], ["q", "other"], ["q", "", "a.b", "ä", "nul"], ["é", "z"]]))
    exchanges = draw(st.sampled_from([[""], [""], ["", "e"]]))
    flags = draw(st.sampled_from([[False], [False], [False, True]]))
    bodies = [b"x" * size for size in draw(st.sampled_from([[0], [5], [5, 6], [0, 1, 2999, 3000, 3001]]))]
    first = publish(channel, b"x" * draw(st.sampled_from([0, 5])), properties=draw(ordinary))
    pieces = [first * draw(st.sampled_from([1, 9]))]
    for _ in range(draw(st.integers(1, 4))):
        one = publish(
            channel, draw(st.sampled_from(bodies)), key=draw(st.sampled_from(keys)),
            exchange=draw(st.sampled_from(exchanges)), mandatory=draw(st.sampled_from(flags)),
            properties=draw(st.sampled_from(lists)), piece=draw(st.sampled_from([100_000] * 5 + [3])),
        ).replace(b"nul", b"n\0l")  # fmt: skip
        pieces.append(one * draw(st.sampled_from([1, 1, 2, 9, 20])))
    octets = bytearray(b"".join(pieces))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(len(first), len(octets) - 1))
        octets[at] = draw(st.sampled_from([0, 1, 2, 3, 60, 0xCE, 0xFF]))
    return bytes(octets[: draw(st.sampled_from([len(octets)] * 3 + [len(octets) - 1, len(octets) // 2]))])


# -- scan ---------------------------------------------------------------------------------------

Message = tuple[Any, ...]


def taken(data: bytes, scan: Any, user: str | None) -> tuple[list[Message], int, Any]:
    """The messages that a publish path takes from the input, the position behind them, and the reason for
    which it takes no more.
    """
    path = PublishPath(FRAME_MAX, BODY_MAX, PropertyChecks(user), scan)
    at, found = 0, list[Message]()
    method = encode_method(data[1] << 8 | data[2], m.BasicPublish("", "q"))[:11]
    while data.startswith(method[:1], at) and data.startswith(method[7:], at + 7):
        stop = at + 7 + int.from_bytes(data[at + 3 : at + 7], "big") + 1
        if stop > len(data) or data[stop - 1] != m.FRAME_END:
            break
        try:
            published = path.take(data, at, stop)
        except ProtocolException as error:
            return found, at, (type(error), str(error))
        if published is None:
            break
        found += messages(published)
        at = published.end
    return found, at, None


def messages(published: Published) -> list[Message]:
    run = published.run
    found = list[Message]()
    for key, same in by_key(run):
        for content in same.contents():
            largest = max(map(len, split(content)))
            assert largest <= run.largest_frame
            found.append(
                (
                    run.exchange, key, run.channel, run.persistent, run.special, same.skip,
                    published.mandatory, published.reply_here, content,
                )
            )  # fmt: skip
    assert run.largest_frame in {len(frame) for content in run.contents() for frame in split(content)}
    return found


@given(data=inputs(), user=st.sampled_from([None, USER]))
def test_the_scan_takes_what_its_twin_takes(built: ModuleType, data: bytes, user: str | None) -> None:
    assert taken(data, built.scan, user) == taken(data, None, user)


def sound(built: ModuleType, properties: bytes) -> None:
    """The twin takes all that the scan takes, with the same traits."""
    checks = PropertyChecks(USER)
    try:
        traits = checks.traits(properties)
    except ProtocolException:
        traits = None
    data = publish(1, b"", properties=properties)
    skip = data.index(m.FRAME_END) + 1
    for bits in range(8):
        measured, _, _ = built.scan(data, 0, skip, False, bits, checks.user, FRAME_MAX, BODY_MAX)
        assert not measured or (traits is not None and (traits.bits, traits.wide) == (bits, 0)), properties


@pytest.mark.parametrize("part", range(4))
def test_what_the_scan_takes_its_twin_takes(built: ModuleType, part: int) -> None:
    for properties in LISTS[part::4]:
        sound(built, properties)


@given(properties=property_lists())
def test_whatever_the_scan_takes_its_twin_takes(built: ModuleType, properties: bytes) -> None:
    sound(built, properties)


@given(data=st.data())
def test_a_wrong_octet_is_found_by_both(built: ModuleType, data: st.DataObject) -> None:
    octets = bytearray(data.draw(st.sampled_from(VALID)))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    sound(built, bytes(octets))


FRAMINGS = {
    "another type": lambda frame: b"\1" + frame[1:],
    "another channel": lambda frame: frame[:2] + b"\7" + frame[3:],
    "a smaller size": lambda frame: frame[:6] + bytes((frame[6] - 1,)) + frame[7:],
    "a greater size": lambda frame: frame[:6] + bytes((frame[6] + 1,)) + frame[7:],
    "no end": lambda frame: frame[:-1] + b"\0",
    "cut": lambda frame: frame[:-1],
}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", FRAMINGS)
def test_the_scan_stops_before_a_frame_with(built: ModuleType, kind: str, number: int) -> None:
    """The second message of two, the header or the body of which is wrong."""
    first, found = publish(1, b"first"), split(publish(1, b"second"))
    found[number] = FRAMINGS[kind](found[number])
    data = b"".join([first, *found])
    assert built.scan(data, 0, len(found[0]), False, 0, None, FRAME_MAX, BODY_MAX)[1] == len(first)
    assert taken(data, built.scan, None) == taken(data, None, None)


def test_the_scan_stops_before_another_class_a_weight_and_a_body_that_is_too_large(built: ModuleType) -> None:
    first, whole = publish(1, b"x" * BODY_MAX), split(publish(1, b"x" * BODY_MAX))
    skip, head = len(whole[0]), whole[1]
    for wrong in (
        [head[:8] + b"\x3d" + head[9:], whole[2]],
        [head[:10] + b"\1" + head[11:], whole[2]],
        split(publish(1, b"x" * (BODY_MAX + 1)))[1:],
        split(publish(1, b"xyz", piece=2))[1:],
    ):
        data = b"".join([first, whole[0], *wrong])
        assert built.scan(data, 0, skip, False, 0, None, FRAME_MAX, BODY_MAX)[1] == len(first)


@pytest.mark.parametrize("kind", SURE)
def test_the_scan_takes_what_applications_send_in_one_run(built: ModuleType, kind: str) -> None:
    """Otherwise the twin takes it, at many times the cost."""
    data = b"".join(SURE[kind])
    path = PublishPath(FRAME_MAX, BODY_MAX, PropertyChecks(USER), built.scan)
    published = path.take(data, 0, data.index(m.FRAME_END) + 1)
    assert published is not None
    assert (published.run.count, published.end) == (300, len(data))
    assert published.run.lengths == array("I", map(len, SURE[kind]))


def test_the_scan_leaves_a_row_of_identical_messages_to_a_uniform_run(built: ModuleType) -> None:
    first, row = [mixed(number) for number in range(5)], [mixed(9)] * 100
    path = PublishPath(FRAME_MAX, BODY_MAX, PropertyChecks(), built.scan)
    data, runs, at = b"".join(first + row), list[Run](), 0
    while at < len(data):
        published = path.take(data, at, at + first[0].index(m.FRAME_END) + 1)
        assert published is not None
        runs.append(published.run)
        at = published.end
    assert [run.count for run in runs] == [14, 91]
    assert runs[1].stride == len(row[0])


@pytest.mark.parametrize(("at", "skip"), [(-1, 20), (0, 6), (0, 10_000), (10_000, 20)])
def test_the_scan_refuses_positions_outside_of_the_input(built: ModuleType, at: int, skip: int) -> None:
    with pytest.raises(ValueError, match="no method frame at this position"):
        built.scan(mixed(1), at, skip, False, 0, None, FRAME_MAX, BODY_MAX)


# -- runs of varied contents ---------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A run with lengths, behind method frames, which may state the keys, or not, of contents with any number
    of body frames.
    """
    channel = draw(st.sampled_from([1, 2, 515]))
    skip = draw(st.sampled_from([0, 13, 40, OWN_METHODS]))
    exchange = draw(st.sampled_from(["", "e"]))
    bodies = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=12))
    pieces = []
    for body in bodies:
        key = draw(st.sampled_from(["q", "", "ä" * 100]))
        whole = publish(channel, body, exchange=exchange, key=key, piece=draw(st.sampled_from([1, 7, 100])))
        content = whole[len(encode_method(channel, m.BasicPublish(exchange, key))) :]
        pieces.append(whole if skip == OWN_METHODS else bytes(skip) + content)
    raw: bytes | memoryview = b"".join(pieces)
    if draw(st.booleans()):
        raw = memoryview(b"before" + raw + b"behind")[6:-6]
    key = None if skip == OWN_METHODS else "q"
    return Run(exchange, key, channel, True, len(bodies), skip, 0, array("I", map(len, pieces)), 60, raw)


def reference(run: Run, channel: int, tag: str, first: int, redelivered: bool) -> bytes:
    """The frames of the run's deliveries, one by one."""
    found = list[bytes]()
    messages = [(key, content) for key, same in by_key(run) for content in same.contents()]
    for number, (key, content) in enumerate(messages, first):
        deliver = m.BasicDeliver(tag, number, redelivered, run.exchange, key)
        found.append(encode_method(channel, deliver))
        found += [encode_frame(frame[0], channel, frame[7:-1]) for frame in split(content)]
    return b"".join(found)


def around(channel: int, run: Run) -> tuple[bytes, bytes]:
    """The octets of a basic.deliver before and behind its delivery tag; without a key that messages state."""
    frame = encode_method(channel, m.BasicDeliver("tag", 0, False, run.exchange, run.routing_key or ""))
    cut = 7 + 4 + len(short(b"tag"))
    return frame[:cut], frame[cut + 8 : -2 if run.routing_key is None else None]


@given(run=runs(), channel=st.sampled_from([1, 2, 515]), first=st.sampled_from([1, 2**40, 2**64 - 100]))
def test_deliveries_are_what_the_codec_makes(built: ModuleType, run: Run, channel: int, first: int) -> None:
    assert run.lengths is not None
    before, after = around(channel, run)
    found = built.deliveries(run.raw, run.skip, run.lengths, before, after, first, channel)
    assert found == reference(run, channel, "tag", first, False)
    assert bytes(encode_deliveries(channel, "tag", first, False, run, FRAME_MAX)) == found


@given(
    bodies=st.integers(0, 40).flatmap(
        lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=12)
    ),
    channel=st.sampled_from([1, 515]),
    frame_max=st.sampled_from([20, FRAME_MAX]),
)
def test_deliveries_of_a_uniform_run_are_those_of_single_messages(
    bodies: list[bytes], channel: int, frame_max: int
) -> None:
    pieces = [publish(2, body, exchange="e", key="q") for body in bodies]
    skip, largest = pieces[0].index(m.FRAME_END) + 1, max(8 + len(bodies[0]), 23)
    run = Run("e", "q", 2, True, len(bodies), skip, len(pieces[0]), None, largest, b"".join(pieces))
    found = bytes(encode_deliveries(channel, "tag", 2**40, True, run, frame_max))
    singles = [run.slice(index, 1) for index in range(run.count)]
    assert found == b"".join(
        encode_deliveries(channel, "tag", number, True, one, frame_max)
        for number, one in enumerate(singles, 2**40)
    )
    if frame_max == FRAME_MAX:
        assert found == reference(run, channel, "tag", 2**40, True)


@given(run=runs())
def test_body_sizes_are_those_of_the_headers(built: ModuleType, run: Run) -> None:
    assert run.lengths is not None
    found = array("Q")
    found.frombytes(built.body_sizes(run.raw, run.skip, run.lengths))
    expected = [sum(len(frame) - 8 for frame in split(content)[1:]) for content in run.contents()]
    assert list(found) == expected


WRONG = {
    "one too short": lambda lengths: [*lengths[:-1], lengths[-1] - 1],
    "one too long": lambda lengths: [*lengths[:-1], lengths[-1] + 1],
    "one too few": lambda lengths: lengths[:-1],
    "one more": lambda lengths: [*lengths, 30],
    "nothing but a method": lambda lengths: [5, sum(lengths) - 5],
    "above all": lambda lengths: [2**32 - 1, *lengths[1:]],
    "none": lambda lengths: [],
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_lengths_are_refused(built: ModuleType, kind: str) -> None:
    pieces = [mixed(number) for number in range(4)]
    raw, skip = b"".join(pieces), pieces[0].index(m.FRAME_END) + 1
    lengths = array("I", WRONG[kind](list(map(len, pieces))))
    with pytest.raises(ValueError, match="not those of the run's messages"):
        built.body_sizes(raw, skip, lengths)
    with pytest.raises(ValueError, match="not those of the run's messages"):
        built.deliveries(raw, skip, lengths, b"", b"", 1, 1)


def test_a_content_that_is_cut_within_a_frame_is_not_moved(built: ModuleType) -> None:
    pieces = [mixed(number) for number in range(4)]
    raw, skip = bytearray(b"".join(pieces)), pieces[0].index(m.FRAME_END) + 1
    starts = [0, *accumulate(map(len, pieces))]
    raw[starts[2] + skip + 3 : starts[2] + skip + 7] = b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="not made of whole frames"):
        built.deliveries(raw, skip, array("I", map(len, pieces)), b"", b"", 1, 2)


def test_what_is_shipped_has_the_functions_in_c() -> None:
    """And the sources run without them."""
    shipped = not publish_path.__file__.endswith(".py")
    for name, function in vars(functions).items():
        if name.startswith("NATIVE_"):
            assert (function is not None) == shipped, name

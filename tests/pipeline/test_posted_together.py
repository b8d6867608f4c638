"""Messages of a posted block that are checked together have the verdict of those that are checked one by one
(F8).
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.posted_blocks import (
    CHECKED_ALONE,
    CHECKED_IN_A_BREATH,
    LARGEST_BLOCK,
    BlockSyntaxError,
    read_posted_block,
)
from node.message.run import Run
from node.wire.amqp091.native import Alike
from node.wire.checked_messages import MessageChecks
from pipeline.log.posting import BlockBuilder, Place
from tests.messages import content
from tests.wire import native
from tests.wire.client import publish, split
from tests.wire.property_lists import LISTS, SURE, VALID, ordinary
from tests.wire.test_native_contents import FRAMINGS

pytestmark = pytest.mark.requirement("F8.4")

BODY_MAX = 3000
METHOD = publish(1, b"").index(0xCE) + 1
ODD_OCTETS = (0, 1, 2, 3, 60, 0xCE, 0xFF)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Alike:
    built = native.load(native.build("_contents", tmp_path_factory.mktemp("native"), "-O0"))
    found: Alike = built.alike
    return found


def block(raws: list[bytes]) -> bytes:
    builder, place = BlockBuilder(LARGEST_BLOCK), Place(b"", b"q", 0, 1)
    for raw in raws:
        builder.add(place, raw)
    return builder.take()


def message(channel: int, body: bytes, properties: bytes, piece: int = 100_000) -> bytes:
    return publish(channel, body, properties=properties, piece=piece)[METHOD:]


def verdict(data: bytes, alike: Alike | None, user: str | None = "guest") -> Any:
    """The runs of a block, or the refusal."""
    try:
        checks = MessageChecks(user, BODY_MAX, alike)
        return [run for run in read_posted_block(data, checks) if run is not None]
    except BlockSyntaxError as error:
        return error.at, error.row, str(error)


@st.composite
def messages(draw: st.DrawFn) -> list[bytes]:
    """Messages in rows of like ones, of which some have a wrong octet."""
    lists = draw(st.lists(st.sampled_from(VALID) | ordinary, min_size=1, max_size=3))
    sizes = draw(st.sampled_from([[5], [0, 5], [0, 1, 2999, 3000, 3001]]))
    channels = draw(st.sampled_from([[1], [1], [1, 258], [1, 0]]))
    found = list[bytes]()
    for _ in range(draw(st.integers(1, 4))):
        one = message(
            draw(st.sampled_from(channels)),
            b"x" * draw(st.sampled_from(sizes)),
            draw(st.sampled_from(lists)),
            draw(st.sampled_from([100_000] * 5 + [3])),
        )
        found += [one] * draw(st.sampled_from([1, 2, 9]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        number = draw(st.integers(0, len(found) - 1))
        octets = bytearray(found[number])
        octets[draw(st.integers(0, len(octets) - 1))] = draw(st.sampled_from(ODD_OCTETS))
        found[number] = bytes(octets)
    return found


@given(raws=messages(), user=st.sampled_from([None, "guest"]))
def test_messages_checked_together_have_the_verdict_of_each(
    alike: Alike, raws: list[bytes], user: str | None
) -> None:
    data = block(raws)
    assert verdict(data, alike, user) == verdict(data, None, user)


@given(raws=messages(), data=st.data())
def test_lengths_that_cut_messages_elsewhere_have_the_verdict_of_each(
    alike: Alike, raws: list[bytes], data: st.DataObject
) -> None:
    """The octets are those of whole messages, and the lengths are not."""
    number = data.draw(st.integers(0, len(raws)))
    octets = b"".join(raws)
    at = sum(map(len, raws[:number])) + data.draw(st.integers(-3, 3))
    at = min(max(at, 1), len(octets) - 1)
    pieces = block([octets[:at], octets[at:]])
    assert verdict(pieces, alike) == verdict(pieces, None)
    shifted = block([*raws[:number], *([octets[at:]] if at < len(octets) else [])])
    assert verdict(shifted, alike) == verdict(shifted, None)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("kind", FRAMINGS)
def test_a_wrong_frame_behind_right_ones_is_refused_by_the_row(alike: Alike, kind: str, number: int) -> None:
    """The header or the body of the third of four messages is wrong."""
    right, frames = content(b"right"), split(content(b"wrong"))
    frames[number] = FRAMINGS[kind](frames[number])
    data = block([right, right, b"".join(frames), right])
    assert verdict(data, alike) == verdict(data, None)
    assert verdict(data, alike)[1] == 2


def test_two_messages_with_one_length_are_refused(alike: Alike) -> None:
    right = content(b"right")
    data = block([right, right, right + right, right])
    assert verdict(data, alike) == verdict(data, None)
    assert verdict(data, alike)[1] == 2


def test_messages_of_another_channel_are_another_run(alike: Alike) -> None:
    other = [message(258, b"x", b"\0\0")] * 3
    for count in (1, 3):
        runs = verdict(block([content(b"x")] * count + other), alike)
        assert [(run.channel, run.count) for run in runs] == [(1, count), (258, 3)]
    zero = message(0, b"x", b"\0\0")
    assert alike(zero, 0, array("I", [len(zero)]), 0, None, BODY_MAX) == (0, 0, 0)
    assert verdict(block([content(b"x"), zero]), alike)[1] == 1


def test_every_property_list_has_the_verdict_of_each(alike: Alike) -> None:
    """Behind a message with each of the traits that a valid list may have."""
    for properties in LISTS[::3]:
        raw = message(1, b"x", properties)
        for before in (content(b"x"), content(b"x", delivery_mode=2), content(b"x", priority=1)):
            data = block([before, raw, raw, before])
            assert verdict(data, alike) == verdict(data, None), properties


@pytest.mark.parametrize("kind", SURE)
def test_messages_as_applications_send_them_are_checked_together(alike: Alike, kind: str) -> None:
    """Otherwise each is checked by itself, at many times the cost."""
    raws = [one[METHOD:] for one in SURE[kind]]
    one_by_one = list[int]()
    checks = MessageChecks("guest", BODY_MAX, alike)

    class Counting:
        like = staticmethod(checks.like)

        def check(self, format: int, data: bytes, at: int, end: int) -> Any:
            one_by_one.append(at)
            return checks.check(format, data, at, end)

    if kind == "direct replies":
        assert verdict(block(raws), alike)[1] == 0
        return
    counting: Any = Counting()
    runs = [run for run in read_posted_block(block(raws), counting) if run is not None]
    assert [run.count for run in runs] == [300] and len(one_by_one) == 1


def test_the_work_may_be_interrupted_before_it_is_long(alike: Alike) -> None:
    data = block([content(b"x")] * (3 * CHECKED_IN_A_BREATH))
    for found, together in ((alike, CHECKED_IN_A_BREATH), (None, CHECKED_IN_A_BREATH // CHECKED_ALONE)):
        pauses = [one for one in read_posted_block(data, MessageChecks(None, BODY_MAX, found)) if one is None]
        assert len(pauses) in (3 * CHECKED_IN_A_BREATH // together + extra for extra in (-1, 0))


def test_a_message_like_the_one_before_needs_octets_of_its_own(alike: Alike) -> None:
    data = content(b"x")
    checks = MessageChecks(None, BODY_MAX, alike)
    found = checks.check(0, data, 0, len(data))
    assert checks.like(0, data, len(data), memoryview(b""), found) == (0, len(data), 0)
    with pytest.raises(ValueError, match="no frame at this position"):
        alike(data, len(data), memoryview(b""), 0, None, BODY_MAX)
    run = verdict(block([data]), alike)
    assert [one.count for one in run] == [1] and isinstance(run[0], Run)

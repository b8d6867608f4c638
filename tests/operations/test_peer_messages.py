"""Every message between nodes arrives as it was said, and what has another form is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.peers import tags
from cluster.peers.held_leases import HeldLeases
from cluster.peers.link_messages import FrontEndCall, OwnerCall
from cluster.peers.registry import FAMILIES
from cluster.process.node import NodeProcess
from replication.raft import MessageError
from tests.operations.peer_messages import KINDS, decode, encode, said, spoilt
from tests.site import Site

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_message_arrives_as_it_was_said(name: str, data: st.DataObject) -> None:
    family, kind = KINDS[name]
    message = data.draw(said(family, kind))
    parts = encode(family, message)
    assert parts[0][:1] == family.tag
    heard = decode(family, parts)
    assert heard == message or encode(family, heard) == parts


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=20)
@given(data=st.data())
def test_what_has_not_the_form_of_its_kind_raises_one_error(name: str, data: st.DataObject) -> None:
    family, kind = KINDS[name]
    good = encode(family, data.draw(said(family, kind)))
    try:
        decode(family, data.draw(spoilt([good])))
    except MessageError:
        return


def test_the_end_of_a_greeting_that_is_no_list_is_refused() -> None:
    """The form depends on the number of its fields: no list has none."""
    family, _ = KINDS["Calls to owners: held"]
    envelope, _ = encode(family, ("held", (0, 0, HeldLeases({}, {}, {}, {}))))
    with pytest.raises(MessageError):
        decode(family, [envelope, msgpack.packb(None)])


def test_every_tag_is_of_one_family_and_every_name_of_one_message() -> None:
    known = [family.tag for family in FAMILIES]
    assert len(set(known)) == len(known)
    assert {value for value in vars(tags).values() if isinstance(value, bytes)} <= set(known)
    assert len(KINDS) == sum(len(family.kinds) for family in FAMILIES)
    assert len({kind.form for _, kind in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize(("tag", "calls"), [(tags.TO_OWNER, OwnerCall), (tags.TO_FRONT_END, FrontEndCall)])
def test_every_call_is_registered(tag: bytes, calls: Any) -> None:
    (family,) = (family for family in FAMILIES if family.tag == tag)
    assert [kind.name for kind in family.kinds] == [call.name.lower() for call in calls]
    assert [kind.form.__name__ for kind in family.kinds] == [kind.name for kind in family.kinds]


def test_every_tag_has_one_who_takes_it() -> None:
    takes: Callable[..., object] = print
    broker = Site("n1").nodes["n1"].broker
    others = {name: SimpleNamespace(receive=takes) for name in ("inquiry", "usage", "shortages", "peers")}
    table = NodeProcess._make_receivers(cast(Any, SimpleNamespace(broker=broker, **others)))
    assert table.keys() == {family.tag for family in FAMILIES}
    assert broker.receivers.keys() < table.keys()
    for tag in table.keys() - broker.receivers.keys():
        assert table[tag] is takes

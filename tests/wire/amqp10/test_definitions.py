"""The composite and restricted types against the definitions in spec/."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import errors
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.encoding import encode_amqp, write_described_list
from node.wire.amqp10.errors import FieldChoiceError, ValueBoundsError, ValueSyntaxError, WireError
from node.wire.amqp10.format_codes import FormatCode
from node.wire.amqp10.values import Described, Symbol, TypedArray, ULong
from scripts.generate_amqp10 import MODULE, TABLES, current
from tests.wire.amqp10.strategies import KINDS, composites, same

XML = "{https://www.amqp.org/schema/amqp.xsd}"
TYPES = {
    one.get("name", ""): one
    for table in TABLES
    for one in ElementTree.parse(table).getroot().iter(XML + "type")
}
COMPOSITES = {name: one for name, one in TYPES.items() if one.get("class") == "composite"}
FIELDS = [
    (name, index, field)
    for name, one in COMPOSITES.items()
    for index, field in enumerate(one.iter(XML + "field"))
]
NULL = b"\x40"
EXAMPLES: dict[str, Composite] = {
    "open": d.Open("c"),
    "begin": d.Begin(1, 2, 3),
    "attach": d.Attach("n", 0, d.Role.RECEIVER),
    "flow": d.Flow(1, 2, 3),
    "transfer": d.Transfer(0),
    "disposition": d.Disposition(d.Role.SENDER, 1),
    "detach": d.Detach(0),
    "end": d.End(),
    "close": d.Close(),
}
"""Each performative with its mandatory fields alone."""


def class_of(name: str) -> type[Composite]:
    found: type[Composite] = getattr(d, "".join(part.capitalize() for part in name.split("-")))
    return found


def decoded(octets: bytes) -> Composite:
    found, at = d.read_composite(octets, 0, len(octets), d.COMPOSITES)
    assert at == len(octets)
    return found


def parts(composite: Composite) -> list[bytes]:
    """The encoded fields."""
    described = decode_value(composite.encode())
    assert isinstance(described, Described) and isinstance(described.value, list)
    return [encode_amqp(field) for field in described.value]


def test_the_module_is_up_to_date() -> None:
    assert MODULE.read_text(encoding="utf-8") == current(), "run python -m scripts.generate_amqp10"


def test_every_composite_type_is_there_with_its_fields() -> None:
    assert set(KINDS) == set(map(class_of, COMPOSITES))
    for name, one in COMPOSITES.items():
        kind = class_of(name)
        descriptor = one.find(XML + "descriptor")
        assert descriptor is not None
        assert f"0x00000000:{kind.CODE:#010x}" == descriptor.get("code")
        assert d.SYMBOLIC[str(descriptor.get("name"))] == kind.CODE
        names = [field.get("name", "").replace("-", "_") for field in one.iter(XML + "field")]
        assert list(kind.FIELDS) == names


def test_every_choice_of_a_restricted_type_is_there() -> None:
    for name, one in TYPES.items():
        wanted = [choice.get("value") for choice in one.iter(XML + "choice")]
        if not wanted or one.get("source") == "boolean":
            continue
        found: Any = class_of(name.replace("-error", "-condition"))
        assert [str(choice.value) for choice in found] == wanted, name
    assert (d.Role.SENDER, d.Role.RECEIVER) == (False, True)


def test_errors_state_conditions_of_the_specification() -> None:
    conditions = (
        d.AmqpCondition, d.ConnectionCondition, d.SessionCondition, d.LinkCondition, d.TransactionCondition
    )  # fmt: skip
    known = {choice.value for kind in conditions for choice in kind}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WireError)]
    assert {kind.condition for kind in kinds if kind is not WireError} <= known


@given(st.sampled_from(KINDS).flatmap(composites))
def test_composite_types_survive_the_wire(composite: Composite) -> None:
    octets = composite.encode()
    found, at = d.read_composite(b"?" + octets + b"!", 1, 1 + len(octets), d.COMPOSITES)
    assert same(found, composite) and at == 1 + len(octets)
    assert found.encode() == octets and found == composite


@given(st.sampled_from(KINDS).flatmap(composites), st.data())
def test_a_composite_type_that_is_cut_short_is_an_error(composite: Composite, data: st.DataObject) -> None:
    octets = composite.encode()
    cut = data.draw(st.integers(0, len(octets) - 1))
    for limited in (octets, octets[:cut]):
        with pytest.raises(ValueSyntaxError):
            d.read_composite(limited, 0, cut, d.COMPOSITES)


# -- the list of the fields -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [("open", 10), ("begin", 8), ("attach", 14), ("flow", 11), ("transfer", 11), ("disposition", 6),
     ("detach", 3), ("end", 1), ("close", 1)],
)  # fmt: skip
def test_a_performative_is_written_with_each_field_to_the_last(name: str, count: int) -> None:
    octets = EXAMPLES[name].encode()
    assert octets[:2] == b"\x00\x53" and octets[2] == class_of(name).CODE
    assert octets[3] == FormatCode.LIST_8 and octets[5] == count and octets[4] == len(octets) - 5
    assert len(parts(EXAMPLES[name])) == count


def test_a_long_list_has_its_size_in_four_octets() -> None:
    long = d.Open("c" * 300)
    assert long.encode()[3] == FormatCode.LIST_32 and decoded(long.encode()) == long


def test_a_type_without_fields_is_an_empty_list() -> None:
    assert d.Accepted().encode() == b"\x00\x53\x24\x45"
    for value in (b"\x45", b"\xc0\x01\x00", b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00"):
        assert decoded(b"\x00\x53\x24" + value) == d.Accepted()


@pytest.mark.sentence("1.0/1.4-2")
@pytest.mark.parametrize("name", EXAMPLES)
def test_fields_that_are_left_out_have_their_defaults(name: str) -> None:
    example = EXAMPLES[name]
    fields = parts(example)
    mandatory = [index for of, index, field in FIELDS if of == name and field.get("mandatory") == "true"]
    least = max(mandatory, default=-1) + 1
    for count in range(len(fields) + 1):
        octets = write_described_list(example.CODE, fields[:count])
        if count < least:
            with pytest.raises(ValueSyntaxError, match="lacks a mandatory field"):
                decoded(octets)
        else:
            assert decoded(octets) == example
    nulls = [field if index in mandatory else NULL for index, field in enumerate(fields)]
    assert decoded(write_described_list(example.CODE, nulls)) == example


def test_defaults_are_those_of_the_definitions() -> None:
    opened, attach, source = d.Open("c"), d.Attach("n", 0, d.Role.SENDER), d.Source()
    assert (opened.max_frame_size, opened.channel_max, opened.idle_time_out) == (2**32 - 1, 65535, None)
    assert d.Begin(1, 2, 3).handle_max == 2**32 - 1
    assert attach.snd_settle_mode is d.SenderSettleMode.MIXED
    assert attach.rcv_settle_mode is d.ReceiverSettleMode.FIRST
    assert source.durable is d.TerminusDurability.NONE and source.timeout == 0 and not source.dynamic
    assert source.expiry_policy is d.TerminusExpiryPolicy.SESSION_END
    assert d.Header().durable is None, "a header tells an absent field from its default"


@pytest.mark.sentence("1.0/1.4-2")
@pytest.mark.parametrize(
    ("name", "index"),
    [(name, index) for name, index, field in FIELDS if field.get("mandatory") == "true"],
)
def test_a_mandatory_field_that_is_null_is_a_decode_error(name: str, index: int) -> None:
    fields = [NULL] * len(class_of(name).FIELDS)
    for of, at, field in FIELDS:
        if of == name and field.get("mandatory") == "true" and at != index:
            fields[at] = VALID[field.get("type", "")]
    with pytest.raises(ValueSyntaxError, match="null"):
        decoded(write_described_list(class_of(name).CODE, fields))


VALID = {
    "string": b"\xa1\x01s", "handle": b"\x43", "role": b"\x41", "uint": b"\x43", "transfer-number": b"\x43",
    "delivery-number": b"\x43", "ulong": b"\x44", "symbol": b"\xa3\x01s", "binary": b"\xa0\x01s",
    "*": b"\xa0\x01s",
    "sasl-code": b"\x50\x00",
}  # fmt: skip


@pytest.mark.parametrize(("name", "index"), [(name, index) for name, index, _ in FIELDS])
def test_a_field_of_another_type_is_a_decode_error(name: str, index: int) -> None:
    """A decimal, which is the type of no field, and anything where a type is open."""
    if (name, index) == ("declare", 0):
        return
    fields = [NULL] * len(class_of(name).FIELDS)
    for of, at, field in FIELDS:
        if of == name and field.get("mandatory") == "true":
            fields[at] = VALID[field.get("type", "")]
    fields[index] = b"\x74\x00\x00\x00\x00"
    with pytest.raises(ValueSyntaxError, match="wanted"):
        decoded(write_described_list(class_of(name).CODE, fields))


@pytest.mark.parametrize("name", COMPOSITES)
def test_too_many_fields_are_a_decode_error(name: str) -> None:
    kind = class_of(name)
    with pytest.raises(ValueSyntaxError, match=f"has {len(kind.FIELDS)} fields"):
        decoded(write_described_list(kind.CODE, [NULL] * (len(kind.FIELDS) + 1)))


def test_octets_behind_the_last_field_are_a_decode_error() -> None:
    with pytest.raises(ValueSyntaxError, match="behind its last field"):
        decoded(b"\x00\x53\x18\xc0\x03\x01\x40\x40")
    with pytest.raises(ValueSyntaxError, match="behind its last field"):
        decoded(b"\x00\x53\x14\xc0\x02\x01\x70\x00\x00\x00\x01")


# -- descriptors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "descriptor",
    [
        b"\x53\x17",
        b"\x80" + bytes(7) + b"\x17",
        b"\xa3\x0damqp:end:list",
        b"\xb3\x00\x00\x00\x0damqp:end:list",
    ],
)
def test_a_descriptor_is_a_ulong_or_a_symbol(descriptor: bytes) -> None:
    assert decoded(b"\x00" + descriptor + b"\xc0\x02\x01\x40") == d.End()


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x53\x99\x45", b"\x00\xa3\x01x\x45", b"\x00\x40\x45", b"\x00\x70\x00\x00\x00\x17\x45", b"\x45",
        b"\x00\x53\x17\xc1\x01\x00", b"\x00\x44\x45", b"\x00",
    ],
)  # fmt: skip
def test_a_value_that_is_no_composite_type_is_a_decode_error(octets: bytes) -> None:
    with pytest.raises(ValueSyntaxError):
        decoded(octets)


# -- fields with a type of their own ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "found"),
    [
        (NULL, ()), (b"\xa3\x01x", ("x",)), (b"\xb3\x00\x00\x00\x01x", ("x",)),
        (b"\xe0\x04\x01\xa3\x01x", ("x",)),
        (b"\xe0\x02\x00\xa3", ()), (b"\xe0\x06\x02\xa3\x01x\x01y", ("x", "y")),
        (b"\xf0\x00\x00\x00\x0a\x00\x00\x00\x01\xb3\x00\x00\x00\x01x", ("x",)),
    ],
)  # fmt: skip
def test_a_multiple_field_is_a_value_an_array_or_null(field: bytes, found: tuple[str, ...]) -> None:
    octets = write_described_list(0x10, [b"\xa1\x01c", *[NULL] * 4, field])
    opened = decoded(octets)
    assert isinstance(opened, d.Open) and opened.outgoing_locales == found


def test_a_multiple_field_is_written_as_an_array_or_null() -> None:
    assert parts(d.Open("c", outgoing_locales=("x",)))[5] == b"\xe0\x04\x01\xa3\x01x"
    assert parts(d.Open("c"))[5] == NULL
    assert parts(d.SaslMechanisms(()))[0] == b"\xe0\x02\x00\xa3", "the field is mandatory"
    for other in (b"\xe0\x04\x01\xa1\x01x", b"\xc0\x04\x01\xa3\x01x"):
        with pytest.raises(ValueSyntaxError, match="symbols is wanted"):
            decoded(write_described_list(0x10, [b"\xa1\x01c", *[NULL] * 4, other]))


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (0x12, [b"\xa1\x01n", b"\x43", b"\x41", b"\x50\x03"]),
        (0x12, [b"\xa1\x01n", b"\x43", b"\x41", NULL, b"\x50\x02"]),
        (0x14, [b"\x43", *[NULL] * 5, b"\x50\x02"]),
        (0x28, [NULL, b"\x52\x03"]),
        (0x28, [NULL, NULL, b"\xa3\x05later"]),
        (0x44, [b"\x50\x05"]),
        (0x28, [NULL, NULL, b"\xb3\x00\x00\x40\x00" + b"x" * 0x4000]),
    ],
)
def test_a_value_that_is_none_of_the_choices_is_an_invalid_field(code: int, fields: list[bytes]) -> None:
    with pytest.raises(FieldChoiceError, match="is none of") as caught:
        decoded(write_described_list(code, fields))
    assert caught.value.condition == "amqp:invalid-field"
    assert len(str(caught.value)) < 200, "the peer is told, in a frame that must not be too large"


def test_a_terminus_and_a_state_stand_only_where_they_belong() -> None:
    target, source = d.Target(address="q"), d.Source(address="q")
    attach = parts(d.Attach("n", 0, d.Role.SENDER, source=source, target=d.Coordinator()))
    found = decoded(write_described_list(0x12, attach))
    assert isinstance(found, d.Attach) and found.source == source and found.target == d.Coordinator()
    for index, wrong in ((5, target.encode()), (6, source.encode()), (6, d.Accepted().encode())):
        with pytest.raises(ValueSyntaxError, match=r"is no (source|target)"):
            decoded(write_described_list(0x12, [*attach[:index], wrong, *attach[index + 1 :]]))
    with pytest.raises(ValueSyntaxError, match="is no outcome"):
        decoded(write_described_list(0x34, [b"\xa0\x01t", d.Received(1, 2).encode()]))


def test_a_type_that_others_have_added_stays_a_described_value() -> None:
    state = Described(Symbol("vendor:state"), [1])
    found = decoded(d.Disposition(d.Role.SENDER, 1, state=state).encode())
    assert isinstance(found, d.Disposition) and same(found.state, state)


def test_unsettled_deliveries_have_states_or_null() -> None:
    unsettled: dict[bytes, Any] = {b"1": None, b"2": d.Received(0, 7), b"3": d.Accepted()}
    found = decoded(d.Attach("n", 0, d.Role.SENDER, unsettled=unsettled).encode())
    assert isinstance(found, d.Attach) and found.unsettled == unsettled
    attach = [b"\xa1\x01n", b"\x43", b"\x41", *[NULL] * 4]
    for wrong in (
        b"\xc1\x05\x02\xa1\x01x\x40",
        b"\xc1\x03\x01\xa0\x00",
        b"\xc1\x07\x04\xa0\x00\x40\xa0\x00\x40",
    ):
        with pytest.raises(ValueSyntaxError):
            decoded(write_described_list(0x12, [*attach, wrong]))


def test_the_parts_of_all_unsettled_deliveries_are_counted_together() -> None:
    """An unknown state may have an array of nulls, which take no octets."""
    states = {
        bytes((n,)): Described(Symbol("x"), TypedArray(FormatCode.NULL, [None] * 9000)) for n in range(8)
    }
    octets = write_described_list(0x12, [b"\xa1\x01n", b"\x43", b"\x41", *[NULL] * 4, encode_amqp(states)])
    assert len(octets) < 256
    with pytest.raises(ValueBoundsError):
        decoded(octets)


def test_maps_of_fields_have_names_for_keys() -> None:
    found = decoded(d.Open("c", properties={"product": "quorate"}).encode())
    assert isinstance(found, d.Open) and found.properties == {"product": "quorate"}
    assert found.properties is not None and [type(key) for key in found.properties] == [Symbol]
    opened = [b"\xa1\x01c", *[NULL] * 8]
    string_key = decoded(write_described_list(0x10, [*opened, b"\xc1\x05\x02\xa1\x01k\x40"]))
    assert isinstance(string_key, d.Open) and string_key.properties == {"k": None}
    for wrong in (b"\xc1\x03\x02\x43\x40", b"\xc1\x05\x02\xa0\x01k\x40", b"\x45"):
        with pytest.raises(ValueSyntaxError, match="symbols for keys"):
            decoded(write_described_list(0x10, [*opened, wrong]))


def test_a_message_id_has_one_of_four_types() -> None:
    assert parts(d.Properties(message_id=7))[0] == b"\x53\x07", "an int of Python is a ulong"
    for wrong in (b"\x52\x01", b"\xa3\x01x", b"\x55\x01", b"\x41"):
        with pytest.raises(ValueSyntaxError, match="message-id is wanted"):
            decoded(write_described_list(0x73, [wrong]))


def test_a_described_value_anywhere_becomes_its_composite_type() -> None:
    policy = {"lifetime-policy": d.DeleteOnClose()}
    found = decoded(d.Source(dynamic=True, dynamic_node_properties=policy).encode())  # type: ignore[arg-type]
    assert isinstance(found, d.Source) and found.dynamic_node_properties is not None
    described = found.dynamic_node_properties["lifetime-policy"]
    assert isinstance(described, Described) and d.composite_of(described) == d.DeleteOnClose()
    with pytest.raises(ValueSyntaxError):
        d.composite_of(Described(ULong(0x99), []))


def test_composite_types_show_and_compare_their_fields() -> None:
    assert repr(d.Detach(7, closed=True)) == "Detach(handle=7, closed=True, error=None)"
    assert d.Detach(7) != d.Detach(8) and d.End() != d.Close() and d.Accepted() != object()
    assert same(decode_value(d.SaslMechanisms(("PLAIN",)).encode()),
                Described(ULong(0x40), [TypedArray(FormatCode.SYMBOL_32, [Symbol("PLAIN")])]))  # fmt: skip


@pytest.mark.parametrize(
    "composite",
    [d.Transfer(handle=2**32), d.Header(priority=256), d.Open("c", channel_max=65536), d.Begin(-1, 0, 0)],
)
def test_a_field_that_its_type_cannot_hold_is_not_written(composite: Composite) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        composite.encode()

"""Batches of commands as messages to `amqp$admin`: whole or not at all, one entry, answered (E1, X7.3)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.config.formats import BATCHES, CHANGED_POINTS, RENAMED_QUEUES
from cluster.peers.packing import unpack
from node.names import ADMIN_NODE
from node.session.batch_reading import MOST_COMMANDS
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.messages import body_of, properties_of_head
from node.wire.amqp10.values import TimestampMs, ULong
from tests.cluster.links import LinkClient
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10 import strategies as amqp10
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import data, section
from tests.wire.amqp10.transacting import CONTROL, control, coordinator, within

REPLIES = "replies"


@pytest.fixture(scope="module")
def shared() -> Site:
    """Three nodes for tests that leave no queue behind but the one of answers."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare(REPLIES)
    return site


@pytest.fixture
def client(shared: Site) -> Client:
    client = shared.client("n2")
    for name in queues(shared, "n2") - {REPLIES}:
        client.delete(name)
    return client


def queues(site: Site, node: str = "n1") -> set[str]:
    return {name for _, name in site.nodes[node].broker.catalog.state.queues}


def ask(client: Client, *commands: str | dict[str, Any], confirmed: bool) -> list[dict[str, Any]]:
    """Send a batch, as lines or as maps; the answer."""
    texts = [one for one in commands if isinstance(one, str)]
    body = "\n".join(texts) if texts else json.dumps(commands)
    asked = {"reply_to": REPLIES, "message_id": "m-7"}
    tags = client.publish(ADMIN_NODE, body.encode(), **asked)
    assert client.confirms(tags) == [confirmed]
    client.site.until(lambda: client.depth(REPLIES))
    answer = client.get(REPLIES)
    assert answer is not None
    assert answer.properties.correlation_id == "m-7"
    told: list[dict[str, Any]] = json.loads(answer.body)
    return told


def statuses(told: list[dict[str, Any]]) -> list[int]:
    return [one["status"] for one in told]


@pytest.mark.requirement("E1")
def test_a_batch_of_every_command_is_carried_out_and_answered(client: Client) -> None:
    told = ask(
        client,
        "create queue a with x-max-length=5, x-overflow=reject-publish",
        'create or assert queue "b c" with durable=false',
        "create or assert queue a with x-max-length=5 x-overflow=reject-publish",
        "assert queue a with durable=true x-max-length=5",
        "update queue a with x-max-length=1 x-overflow=null",
        "assert queue a with x-max-length=1 x-overflow=null",
        'delete queue "b c"',
        "query queue with x-max-length=1",
        "query queue nowhere",
        confirmed=True,
    )
    assert statuses(told) == [201, 201, 200, 200, 200, 200, 200, 200, 200]
    (found,) = told[7]["queues"]
    assert (found["name"], found["type"], found["arguments"]) == ("a", "quorum", {"x-max-length": 1})
    assert told[7]["complete"] and told[8]["queues"] == []
    # The changed argument counts: the queue keeps its newest message.
    client.confirms(client.publish("a", b"1", b"2"))
    assert client.bodies("a") == [b"2"]


@pytest.mark.requirement("E1", "X7.3")
def test_a_batch_with_a_command_that_fails_changes_nothing(client: Client, shared: Site) -> None:
    client.declare("kept", max_length=3)
    client.bind("kept", "amq.fanout")
    before = [node.broker.catalog.state.snapshot() for node in shared.nodes.values()]
    told = ask(
        client,
        {"command": "delete", "queue": "kept"},
        {"command": "create", "queue": "s", "with": {"x-queue-type": "stream"}},
        {"command": "create", "queue": "over", "with": {"x-underlying-topic": "s", "x-history": "7D"}},
        confirmed=False,
    )
    assert statuses(told) == [424, 424, 409]
    told = ask(
        client,
        {"command": "update", "queue": "kept", "with": {"x-max-length": 4}},
        {"command": "create", "queue": "new"},
        {"command": "assert", "queue": "kept", "with": {"x-max-length": 3}},
        {"command": "delete", "queue": "kept"},
        confirmed=False,
    )
    assert statuses(told) == [424, 424, 409, 424]
    assert told[2]["reason"] == (
        "inequivalent arg 'x-max-length' for queue 'kept' in vhost '/': received '3' but current is '4'"
    )
    after = [node.broker.catalog.state.snapshot() for node in shared.nodes.values()]
    # A refused command is remembered as asked for; nothing else differs.
    plain = [_without_requests(one) for one in (*before, *after)]
    assert plain.count(plain[0]) == len(plain)


def _without_requests(snapshot: bytes) -> dict[str, Any]:
    return {name: value for name, value in unpack(snapshot).items() if name != "recent"}


@pytest.mark.requirement("E1")
def test_a_renamed_queue_keeps_messages_consumers_bindings_and_views(client: Client, shared: Site) -> None:
    client.declare("a", max_length=9)
    client.bind("a", "amq.topic", "k.*")
    view = {"name": "counts", "queue": "a", "filter": "", "group_by": [], "fields": {"n": "COUNT(*)"}}
    shared.submit("n1", "put_view", {"vhost": "/", "view": view})
    taker = shared.client("n3")
    taker.consume("a", prefetch=2)
    client.confirms(client.publish("a", b"1", b"2", b"3"))
    shared.until(lambda: len(taker.deliveries) == 2)
    told = ask(
        client, "rename queue a b", "update queue b with x-max-length=2", "query queue b", confirmed=True
    )
    assert statuses(told) == [200, 200, 200]
    assert told[2]["queues"][0]["arguments"] == {"x-max-length": 2}
    for node in shared.nodes.values():
        state = node.broker.catalog.state
        assert ("/", "a") not in state.queues
        (found,) = state.views.in_vhost("/")
        assert found.queue == "b"
    client.confirms(client.publish("k.1", b"4", exchange="amq.topic"))
    client.confirms(client.publish("a", b"nowhere"))
    client.confirms(client.publish("b", b"5"))
    for _ in range(2):
        taker.ack(taker.deliveries[-2])
        taker.ack(taker.deliveries[-1])
        shared.run(0.3)
    assert [one.body for one in taker.deliveries] == [b"1", b"2", b"4", b"5"]
    assert ask(client, "query queue a", confirmed=True)[0]["queues"] == []
    assert statuses(ask(client, "create queue a", "delete queue b", confirmed=True)) == [201, 200]
    assert client.depth("a") == 0
    assert not list(shared.nodes["n3"].broker.catalog.state.views.in_vhost("/"))


@pytest.mark.requirement("E1")
def test_two_queues_change_names_in_one_batch(client: Client) -> None:
    for name in "ab":
        client.declare(name)
        client.confirms(client.publish(name, name.encode()))
    told = ask(client, "rename queue a c", "rename queue b a", "rename queue c b", confirmed=True)
    assert statuses(told) == [200, 200, 200]
    assert (client.bodies("a"), client.bodies("b")) == ([b"b"], [b"a"])


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("a", {"queue_type": "stream"}, "it is a stream"),
        ("a", {"history": "7D"}, "history knows it by its name"),
        ("a", {"owners": 2}, "it has several owners"),
        ("a", {"replication": "local"}, "part of a local queue"),
    ],
)
def test_a_queue_that_is_known_by_its_name_is_not_renamed(
    client: Client, name: str, arguments: dict[str, Any], reason: str
) -> None:
    client.declare(name, **arguments)
    (told,) = ask(client, f"rename queue {name} b", confirmed=False)
    assert told["status"] == 409 and reason in told["reason"]
    client.delete(name)


@pytest.mark.requirement("X7.3")
def test_a_batch_is_one_entry_of_the_catalogs_log(client: Client, shared: Site) -> None:
    catalog = shared.nodes["n2"].broker.catalog
    index = catalog.applied_index
    assert statuses(ask(client, *(f"create queue q{n}" for n in range(50)), confirmed=True)) == [201] * 50
    assert catalog.applied_index == index + 1
    assert statuses(ask(client, *(f"delete queue q{n}" for n in range(50)), confirmed=True)) == [200] * 50
    assert catalog.applied_index == index + 2


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("rename queue nowhere b", 404),
        (f"rename queue {REPLIES} amq.x", 403),
        (f"rename queue {REPLIES} amqp$x", 403),
        (f"rename queue {REPLIES} {REPLIES}", 409),
        (f"rename queue {REPLIES}", 400),
        ("rename queue", 400),
        ("rename queue a b with durable=true", 400),
        ("rename link a b", 501),
        ("create link l a b", 501),
        ("query link", 501),
        ("delete queue nowhere", 404),
        ("create queue amq.x", 403),
        ("create queue amqp$x", 403),
        ("create queue a with exclusive=true", 501),
        ("create queue a with x-replication=local", 409),
        ("create queue a with x-max-length=-1", 409),
        ("create queue a with x-queue-type=stream, x-max-priority=3", 409),
        (f"update queue {REPLIES} with x-max-priority=3", 409),
        (f"update queue {REPLIES} with x-fairness=slow", 409),
        (f"create queue {REPLIES}", 409),
        ("create", 400),
        ("create queue", 400),
        ("create queue a b", 400),
        ("create queue a with", 200),
        ("create queue a with colour=red", 400),
        ("create queue a with durable=3", 400),
        ("create queue a with x-max-length", 400),
        ("delete queue a with durable=true", 400),
        ("update queue a", 400),
        ("make queue a", 400),
        ('create queue "a', 400),
    ],
)
def test_a_refused_command_has_its_status_and_the_session_goes_on(
    client: Client, command: str, status: int
) -> None:
    if status == 200:
        assert statuses(ask(client, command, confirmed=True)) == [201]
    else:
        assert statuses(ask(client, command, confirmed=False)) == [status]
    assert statuses(ask(client, "create queue next", confirmed=True)) == [201]


@pytest.mark.requirement("E1")
def test_a_batch_takes_no_part_in_a_transaction(shared: Site) -> None:
    client = shared.client("n1", transactional=True)
    client.publish(ADMIN_NODE, b"create queue in-tx")
    with pytest.raises(ChannelClosedError) as closed:
        client.commit()
    assert closed.value.code == 406
    assert "takes no part in a transaction" in str(closed.value)
    assert "in-tx" not in queues(shared)


@pytest.mark.requirement("E1")
def test_batches_without_a_confirm_or_an_address_are_carried_out_in_order(client: Client) -> None:
    client.publish(ADMIN_NODE, *(b"create queue a\ndelete queue a" for _ in range(100)))
    assert client.confirms(client.publish(ADMIN_NODE, b"create queue a")) == [True]


@pytest.mark.requirement("E1")
def test_a_link_of_amqp_1_0_sends_batches(client: Client, shared: Site) -> None:
    client.declare("answers")
    link = LinkClient(shared, "n3", sender(0, ADMIN_NODE), receiver(1, "answers"), credit(10, handle=1))
    commands = [
        {"command": "create", "queue": "a", "with": {"x-max-length": 5}},
        {"command": "query", "queue": "a"},
    ]
    told = d.Properties(message_id=ULong(9), reply_to="/queues/answers")
    batch = told.encode() + section(SectionCode.AMQP_VALUE, commands)
    link.send(transfer(0, batch))
    assert outcomes(link) == [d.Accepted()]
    answers = body_of(run_of(link.payloads[-1]))
    assert isinstance(answers, list)
    assert properties_of_head(link.payloads[-1]).correlation_id == ULong(9)
    assert statuses(answers) == [201, 200]
    assert answers[1]["queues"][0]["arguments"] == {"x-max-length": 5}
    link.send(transfer(1, batch))
    refused = outcomes(link)[-1]
    assert isinstance(refused, d.Rejected) and refused.error is not None
    assert refused.error.condition == d.AmqpCondition.PRECONDITION_FAILED
    assert statuses(body_of(run_of(link.payloads[-1]))) == [409, 424]
    link.lose()


@pytest.mark.requirement("E1")
def test_a_batch_in_a_transaction_of_amqp_1_0_fails_the_transaction(shared: Site) -> None:
    link = LinkClient(shared, "n3", coordinator(), sender(0, ADMIN_NODE))
    link.send(transfer(0, control(d.Declare()), CONTROL))
    (declared,) = outcomes(link)
    link.send(transfer(1, data(b"create queue in-tx"), state=within(declared.txn_id)))
    link.send(transfer(2, control(d.Discharge(declared.txn_id)), CONTROL))
    assert isinstance(outcomes(link)[-1], d.Rejected)
    assert "in-tx" not in queues(shared)


def outcomes(link: LinkClient) -> list[Any]:
    """The outcomes of what the link has sent."""
    link.reads()
    told = [one.performative for one in link.frames]
    return [one.state for one in told if isinstance(one, d.Disposition) and one.role is d.Role.RECEIVER]


# -- rights -------------------------------------------------------------------------------------------


@pytest.mark.requirement("E1")
def test_rights_are_asked_before_a_command_is_carried_out(client: Client, shared: Site) -> None:
    right = {"user": "guest", "vhost": "/", "write": ".*", "read": "replies|a"}
    shared.submit("n1", "set_permissions", {**right, "configure": "a|replies"})
    try:
        told = ask(client, "create queue a", "create queue other", confirmed=False)
        assert statuses(told) == [424, 403]
        assert "a" not in queues(shared)
        assert statuses(ask(client, "query queue", confirmed=False)) == [403]
        assert statuses(ask(client, "create queue a", "query queue a", confirmed=True)) == [201, 200]
    finally:
        shared.submit("n1", "set_permissions", {**right, "configure": ".*", "read": ".*"})


# -- faults -------------------------------------------------------------------------------------------


@pytest.mark.requirement("X7.3")
@pytest.mark.parametrize("after_s", [0.0, 0.003, 0.006])
def test_a_batch_is_whole_on_every_node_when_the_catalogs_leader_dies(after_s: float) -> None:
    site = Site("n1", "n2", "n3")
    leader = next(name for name, node in site.nodes.items() if node.broker.catalog.leads)
    others = [name for name in site.nodes if name != leader]
    client = site.client(others[0])
    tags = client.publish(ADMIN_NODE, "\n".join(f"create queue q{n}" for n in range(40)).encode())
    site.run(after_s)
    site.nodes[leader].stop(power=True)
    assert client.confirms(tags) == [True]
    assert all(queues(site, name) == {f"q{n}" for n in range(40)} for name in others)
    site.nodes[leader].start()
    site.until(lambda: queues(site, leader) == {f"q{n}" for n in range(40)})


@pytest.mark.requirement("E1")
def test_no_batch_is_carried_out_while_a_member_runs_an_older_release(client: Client, shared: Site) -> None:
    node = shared.nodes["n2"]
    formats = node.broker._peer_formats
    before, formats.own = formats.own, BATCHES - 1
    try:
        (told,) = ask(client, "create queue a", confirmed=False)
    finally:
        formats.own = before
    assert told["status"] == 409 and "upgrade all nodes first" in told["reason"]


@pytest.mark.requirement("E1")
def test_no_queue_is_renamed_while_a_member_runs_an_older_release(client: Client, shared: Site) -> None:
    broker = shared.nodes["n2"].broker
    formats = broker._peer_formats
    shared.until(broker.formats.know_renaming)
    before, formats.own = formats.own, RENAMED_QUEUES - 1
    try:
        told = ask(client, "create queue a", "rename queue a b", confirmed=False)
    finally:
        formats.own = before
    shared.until(broker.formats.know_renaming)
    assert statuses(told) == [424, 409] and "upgrade all nodes first" in told[1]["reason"]


@pytest.mark.requirement("D13.1", "E1")
def test_no_recovery_point_changes_while_a_member_runs_an_older_release(client: Client, shared: Site) -> None:
    broker = shared.nodes["n2"].broker
    formats = broker._peer_formats
    shared.until(broker.formats.know_changed_points)
    declared = ["create queue s with x-queue-type=stream", "create queue q with x-underlying-topic=s"]
    assert statuses(ask(client, *declared, confirmed=True)) == [201, 201]
    before, formats.own = formats.own, CHANGED_POINTS - 1
    try:
        (told,) = ask(client, "update queue q with x-recovery-point=epoch", confirmed=False)
    finally:
        formats.own = before
    shared.until(broker.formats.know_changed_points)
    assert told["status"] == 409 and "upgrade all nodes first" in told["reason"]
    assert statuses(ask(client, "update queue q with x-recovery-point=epoch", confirmed=True)) == [200]


@pytest.mark.requirement("D13.1", "E1")
@pytest.mark.parametrize("point", ["", " x-recovery-point=epoch"])
def test_a_recovery_point_over_a_pattern_stays(client: Client, point: str) -> None:
    pattern = f"x-underlying-topic=^s$ x-default-publish-target=s{point}"
    declared = ["create queue s with x-queue-type=stream", f"create queue q with {pattern}"]
    assert statuses(ask(client, *declared, confirmed=True)) == [201, 201]
    (told,) = ask(client, "update queue q with x-recovery-point=1h", confirmed=False)
    assert told["status"] == 409 and "declare another queue" in told["reason"]


BODIES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["command", "queue", "with", "to", "x-max-length"]), inner, max_size=4)
    )).map(lambda one: json.dumps(one).encode()),
    st.lists(st.sampled_from(
        ["create", "or", "assert", "query", "queue", "link", "a", "with", "=", ",", '"', '"b"', '" "', '""',
         "x-a", "\n"]
    ), max_size=12).map(lambda words: " ".join(words).encode()),
)  # fmt: skip
HOSTILE = (
    b"[" * 60_000,
    b'{"a":' * 10_000,
    b"create queue " + b"a" * 65_000,
    b"x" * (64 * 1024 + 1),
    b"query queue\n" * (MOST_COMMANDS + 1),
    b'create queue "\xff"',
    b'create queue "\\ud800"',
    b'" " "',
    b'" " queue',
    b'"" link a b',
    b"create queue a with x-a=" + b"[" * 900 + b"]" * 900,
    b'{"command": "query", "with": {"x-a": ' + b'{"a":' * 900 + b"1" + b"}" * 902,
    b'[{"command": "create", "queue": "a", "with": {"x-max-length": 1' + b"0" * 400 + b"}}]",
    b"",
)


def test_malformed_and_oversized_bodies_are_refused_and_the_node_stays_up(client: Client) -> None:
    for body in HOSTILE:
        assert client.confirms(client.publish(ADMIN_NODE, body)) == [False], body[:50]

    @settings(max_examples=80, deadline=None)
    @given(BODIES)
    def any_body(body: bytes) -> None:
        client.confirms(client.publish(ADMIN_NODE, body, reply_to="nowhere"))

    any_body()
    assert statuses(ask(client, "create queue still", confirmed=True)) == [201]


def test_malformed_values_of_amqp_1_0_are_refused(shared: Site) -> None:
    bodies = [
        section(SectionCode.AMQP_VALUE, {"command": "query", "with": {"x-a": TimestampMs(-1)}}),
        section(SectionCode.AMQP_VALUE, [1, 2]),
        section(SectionCode.AMQP_VALUE, {1: 2}),
        section(SectionCode.AMQP_VALUE, {"command": "create", "queue": UUID(int=1)}),
        section(SectionCode.AMQP_VALUE, {"command": "query", "with": {"x-a": UUID(int=1)}}),
        section(SectionCode.AMQP_SEQUENCE, ["create"]),
        section(SectionCode.AMQP_VALUE, "create queue"),
        section(SectionCode.DATA, b"[" * 70_000),
        d.Properties(subject="no body").encode(),
    ]
    link = LinkClient(shared, "n3", sender(0, ADMIN_NODE))
    link.send(*(transfer(number, body) for number, body in enumerate(bodies)))
    refused = outcomes(link)
    assert len(refused) == len(bodies) and all(isinstance(one, d.Rejected) for one in refused)
    link.send(transfer(len(bodies), section(SectionCode.AMQP_VALUE, "query queue")))
    assert outcomes(link)[-1] == d.Accepted()


ARGUMENTS = ["x-max-length", "x-queue-type", "x-message-ttl", "x-underlying-topic", "x-a", "durable"]


@pytest.mark.requirement("E1")
@settings(max_examples=60, deadline=None)
@given(
    amqp10.values
    | st.fixed_dictionaries({
        "command": st.sampled_from(["query", "update", "create or assert"]),
        "queue": st.just("any"),
        "with": st.dictionaries(st.sampled_from(ARGUMENTS), amqp10.values, max_size=3),
    }),
    amqp10.composites(d.Properties),
)  # fmt: skip
def test_every_value_of_amqp_1_0_has_an_outcome(shared: Site, value: Any, told: d.Properties) -> None:
    # A user-id of another user is refused before the node sees the message.
    told.user_id = None
    link = LinkClient(shared, "n3", sender(0, ADMIN_NODE))
    link.send(transfer(0, told.encode() + section(SectionCode.AMQP_VALUE, value)))
    (outcome,) = outcomes(link)
    assert isinstance(outcome, d.Accepted | d.Rejected)
    link.lose()

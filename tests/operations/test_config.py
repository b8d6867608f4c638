"""Configuration files: what they mean, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.addresses import Address
from cluster.config.models import load, parse
from cluster.config.passwords import PasswordHash
from cluster.config.tables import ConfigError
from cluster.gateway.client_limits import container_links
from node.session.container_links import ContainerLink
from replication.transport import CurveKeys

NODE = """
[node]
name = "n1"
data_dir = "data/n1"
{node}
[cluster.nodes.n1]
peers = "127.0.0.1:25672"
amqp = "127.0.0.1:5672"
http = "127.0.0.1:15672"
{cluster}
"""


def config_text(node: str = "", cluster: str = "") -> str:
    return NODE.format(node=node, cluster=cluster)


def mistakes(node: str = "", cluster: str = "") -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(config_text(node, cluster), "f.toml")
    return str(refusal.value).splitlines()


@pytest.mark.requirement("B1.4", "B1.6")
def test_a_minimal_file_gets_the_documented_defaults() -> None:
    config = parse(config_text(), "f.toml")
    assert config.listen.amqp == Address("127.0.0.1", 5672)
    assert config.listen.amqps == Address("127.0.0.1", 5671)
    assert config.cluster.default_queue_type == "quorum"
    assert config.cluster.limits.frame_max_bytes == 131_072
    assert config.cluster.founders()["guest"].password_hash.matches("guest")
    assert not config.cluster.encrypted
    with pytest.raises(ConfigError, match="Run `quorate keygen FILE` for each node"):
        config.curve_keys()


def test_every_mistake_is_reported_with_its_key_value_and_remedy() -> None:
    found = mistakes(
        node='log_level = "loud"',
        cluster='[cluster.limits]\nchannels = 0\nconections = 5\n[cluster.nodes.n2]\namqp = "here"',
    )
    assert found == [
        "f.toml: node.log_level: Input should be 'debug', 'info', 'warning' or 'error'; the value is 'loud'",
        "f.toml: cluster.nodes.n2.peers: missing: set it (docs/configuration.md explains it)",
        'f.toml: cluster.nodes.n2.amqp: must be "host:port", such as "127.0.0.1:5672" or "[::1]:5672"; '
        "the value is 'here'",
        "f.toml: cluster.nodes.n2.http: missing: set it (docs/configuration.md explains it)",
        "f.toml: cluster.limits.channels: Input should be greater than or equal to 1; the value is 0",
        "f.toml: cluster.limits.conections: unknown key: correct or remove it "
        "(docs/configuration.md lists all keys)",
    ]


@pytest.mark.requirement("D20.4")
def test_a_node_names_its_domains() -> None:
    assert parse(config_text(), "f.toml").domains == ()
    assert parse(config_text('domains = ["east", "rack-7"]'), "f.toml").domains == ("east", "rack-7")
    (found,) = mistakes(node='domains = ["east", "two words"]')
    assert found.startswith("f.toml: node.domains.1: ") and found.endswith("the value is 'two words'")
    (found,) = mistakes(node='domains = "east"')
    assert found.startswith("f.toml: node.domains: Input should be a valid ")
    (found,) = mistakes(node=f"domains = {[f'd{number}' for number in range(17)]}")
    assert found.startswith("f.toml: node.domains: Tuple should have at most 16 items")


@pytest.mark.parametrize("value", ["true", '"10"', "1.5", "[1]"])
def test_a_number_must_be_a_number(value: str) -> None:
    (found,) = mistakes(cluster=f"[cluster.limits]\nchannels = {value}")
    assert found.startswith("f.toml: cluster.limits.channels: Input should be a valid integer")


LINK = """
[cluster.links.invoices]
container = "{container}"
direction = "{direction}"
address = "{address}"
container_address = "inbox"
"""


@pytest.mark.requirement("B4.3", "B4.4")
def test_links_to_containers_are_those_of_the_table() -> None:
    text = LINK.format(container="billing-*", direction="send", address="/queues/a")
    text += LINK.format(container="shop", direction="receive", address="/exchanges/e/k").replace(
        "invoices", "orders"
    )
    assert container_links(parse(config_text(cluster=text), "f.toml").cluster) == [
        ContainerLink("invoices", "billing-*", "/", True, "/queues/a", "inbox"),
        ContainerLink("orders", "shop", "/", False, "/exchanges/e/k", "inbox"),
    ]


@pytest.mark.parametrize(
    ("container", "direction", "address", "said"),
    [
        ("a*b*", "send", "q", 'container "a*b*" has more than one `*`'),
        ("a", "send", "/exchanges/e", "begins with none of /queues/"),
        ("a", "receive", "/management", "begins with none of /queues/ and /exchanges/"),
        ("a", "both", "q", "cluster.links.invoices.direction: Input should be 'send' or 'receive'"),
    ],
)
def test_a_link_to_a_container_names_what_can_be_attached(
    container: str, direction: str, address: str, said: str
) -> None:
    (line,) = mistakes(cluster=LINK.format(container=container, direction=direction, address=address))
    assert said in line


def test_heartbeats_must_fit_into_the_election_timeout() -> None:
    (found,) = mistakes(cluster="[cluster.replication]\nelection_timeout_ms = 200")
    assert found == (
        "f.toml: cluster.replication: heartbeat_interval_ms (100) must be at most a third of "
        "election_timeout_ms (200)"
    )


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ('[node.listen]\namqp = "0.0.0.0:5672"', 'listen.amqp "0.0.0.0:5672" is open to other machines'),
        ('[node.listen]\nhttp = "[::]:15672"', 'listen.http "[::]:15672" is open to other machines'),
        ('[node.listen]\npeers = "10.0.0.1:25672"', "is open to other machines without keys"),
    ],
)
def test_the_default_user_and_keyless_nodes_stay_on_loopback(node: str, said: str) -> None:
    (found,) = mistakes(node=node)
    assert said in found


def test_users_of_ones_own_open_the_amqp_port() -> None:
    users = f'[cluster.users.alice]\npassword_hash = "{PasswordHash.of("wonder")}"'
    config = parse(config_text('[node.listen]\namqp = "0.0.0.0:5672"', users), "f.toml")
    assert set(config.cluster.founders()) == {"alice"}
    assert config.cluster.founders()["alice"].password_hash.matches("wonder")


def test_a_password_never_shows_in_an_error_or_a_repr() -> None:
    text = "hunter2"
    for user in (f'password_hash = "{text}"', f'password = "{text}"', f'password_file = ["{text}"]'):
        found = mistakes(cluster=f"[cluster.users.bob]\n{user}")
        assert all(text not in line for line in found), found
    good = parse(config_text(cluster=f'[cluster.users.a]\npassword_hash = "{PasswordHash.of(text)}"'), "f")
    assert "scrypt" not in repr(good)


def test_a_user_has_one_source_of_its_password() -> None:
    (found,) = mistakes(cluster="[cluster.users.bob]")
    assert found == "f.toml: cluster.users.bob: set either password_hash or password_file"


def test_a_password_file_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("wonder\n")
    config = parse(config_text(cluster=f'[cluster.users.alice]\npassword_file = "{file}"'), "f.toml")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=f"can be read by other accounts: chmod 600 {file}"):
        config.cluster.founders()
    file.chmod(0o600)
    assert config.cluster.founders()["alice"].password_hash.matches("wonder")
    file.unlink()
    with pytest.raises(ConfigError, match=f"{file}: cannot read the password"):
        config.cluster.founders()


def test_the_node_must_be_in_the_cluster() -> None:
    with pytest.raises(ConfigError, match=r'f: node: name "n9" is not among cluster.nodes \(n1\)'):
        parse(config_text().replace('name = "n1"', 'name = "n9"'), "f")


def test_keys_are_for_all_nodes_or_none(tmp_path: Path) -> None:
    keys = CurveKeys.generate()
    secret = tmp_path / "key"
    secret.write_text(keys.secret.decode() + "\n")
    secret.chmod(0o600)
    public = f'public_key = "{keys.public.decode()}"\n'
    other = '[cluster.nodes.n2]\npeers = "127.0.0.1:1"\namqp = "127.0.0.1:2"\nhttp = "127.0.0.1:3"\n'
    own = f'secret_key_file = "{secret}"\n'
    assert mistakes(own) == ["f.toml: node: secret_key_file is set, but cluster.nodes have no public_key"]
    assert mistakes(cluster=public) == [
        "f.toml: node: secret_key_file is missing, but cluster.nodes have public keys"
    ]
    assert mistakes(own, public + other) == [
        "f.toml: cluster: nodes.n2.public_key is missing: either all nodes have one or none"
    ]
    config = parse(config_text(own, public), "f.toml")
    assert config.curve_keys() == keys
    stranger = CurveKeys.generate()
    secret.write_text(stranger.secret.decode())
    with pytest.raises(ConfigError, match="belongs to another public key") as refusal:
        config.curve_keys()
    assert stranger.secret.decode() not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "not valid TOML"),
        ("", r"the table \[node\] is missing"),
        ("[node]\n[cluster]\n[journal]", "journal: unknown"),
        ("[node]\ncluster = 1\n[cluster]", "node.cluster: unknown key"),
    ],
)
def test_a_file_of_the_wrong_shape(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(text, "f.toml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        load(tmp_path / "none.toml")


@given(st.integers(1, 65535), st.sampled_from(["127.0.0.1", "localhost", "::1", "mq.example.org"]))
def test_an_address_reads_as_it_is_written(port: int, host: str) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address = Address.parse(text)
    except ValueError:
        return
    assert 1 <= address.port <= 65535
    assert address.host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert Address(host, 1).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "mq.example.org"])
def test_not_loopback(host: str) -> None:
    assert not Address(host, 1).is_loopback


@pytest.mark.requirement("F5.7")
def test_tokens_need_the_tables_of_the_cluster_and_of_the_node() -> None:
    shared = '[cluster.tokens]\nissuer = "https://login.example"\naudience = "quorate"\n'
    own = '[node.tokens]\njwks = "keys.json"\n'
    told = ["f.toml: node: [cluster.tokens] and [node.tokens] belong together: set both tables or none"]
    assert mistakes(cluster=shared) == told
    assert mistakes(own) == told
    config = parse(config_text(own, shared), "f.toml")
    assert config.tokens is not None and config.cluster.tokens is not None
    assert config.cluster.tokens.algorithms == ("RS256", "ES256", "EdDSA")
    assert any("algorithms" in one for one in mistakes(own, shared + 'algorithms = ["none"]\n'))
    assert any("clock_skew_s" in one for one in mistakes(own, shared + "clock_skew_s = 301\n"))

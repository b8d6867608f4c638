"""Configuration by environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.models import NodeConfig, parse
from cluster.config.tables import ConfigError
from tests.operations.test_config import config_text


def configured(**environment: str) -> NodeConfig:
    return parse(config_text(), "f.toml", environment)


def refusal(**environment: str) -> str:
    with pytest.raises(ConfigError) as refused:
        configured(**environment)
    return str(refused.value)


def test_a_variable_counts_more_than_the_file() -> None:
    config = configured(
        QUORATE_NODE__LOG_LEVEL="debug",
        QUORATE_NODE__DATA_DIR="/var/lib/quorate",
        QUORATE_CLUSTER__LIMITS__HANDSHAKE_TIMEOUT_S="2.5",
        QUORATE_CLUSTER__LOOPBACK_USERS="[]",
    )
    assert config.log_level == "debug"
    assert config.data_dir == Path("/var/lib/quorate")
    assert config.cluster.limits.handshake_timeout_s == 2.5
    assert config.cluster.loopback_users == ()


def test_names_that_are_free_to_choose_keep_their_capitals() -> None:
    config = configured(
        QUORATE_NODE__NAME="North",
        QUORATE_CLUSTER__NODES__North__PEERS="127.0.0.1:1",
        QUORATE_CLUSTER__NODES__North__AMQP="127.0.0.1:2",
        QUORATE_CLUSTER__NODES__North__HTTP="127.0.0.1:3",
    )
    assert config.name == "North"
    assert config.cluster.nodes.keys() == {"n1", "North"}


def test_a_table_that_is_only_in_the_environment() -> None:
    config = configured(QUORATE_NODE__TLS__CERTIFICATE="c.pem", QUORATE_NODE__TLS__KEY="k.pem")
    assert config.tls is not None
    assert config.tls.key == Path("k.pem")


def test_text_is_never_taken_for_a_number() -> None:
    config = configured(QUORATE_CLUSTER__NAME="7")
    assert config.cluster.name == "7"


def test_a_mistake_names_variable_key_and_value() -> None:
    assert refusal(QUORATE_CLUSTER__LIMITS__CHANNELS="many") == (
        "QUORATE_CLUSTER__LIMITS__CHANNELS: cluster.limits.channels: Input should be a valid integer; "
        "the value is 'many'"
    )
    assert refusal(QUORATE_CLUSTER__LIMITS__CHANELS="5") == (
        "QUORATE_CLUSTER__LIMITS__CHANELS: cluster.limits.chanels: unknown key: correct or remove it "
        "(docs/configuration.md lists all keys)"
    )
    assert refusal(QUORATE_NODE__NAME__FIRST="n1") == (
        "QUORATE_NODE__NAME__FIRST: node.name.FIRST: name is a value, not a table"
    )


def test_a_secret_in_a_variable_is_not_shown() -> None:
    told = refusal(QUORATE_CLUSTER__USERS__anna__PASSWORD_HASH="plain text")
    assert "cluster.users.anna" in told
    assert "plain text" not in told


def test_what_kubernetes_sets_for_a_service_called_quorate_is_not_ours() -> None:
    assert configured(QUORATE_SERVICE_HOST="10.0.0.1", QUORATE_PORT="tcp://10.0.0.1:5672") == configured()


PARTS = st.sampled_from(["NODE", "CLUSTER", "LIMITS", "NODES", "n1", "AMQP", "NAME", "TLS", "USERS", "", "X"])


@given(st.sampled_from(["NODE", "CLUSTER"]), st.lists(PARTS, min_size=1, max_size=5), st.text(max_size=8))
def test_any_variable_is_used_or_refused(table: str, parts: list[str], value: str) -> None:
    try:
        configured(**{"__".join([f"QUORATE_{table}", *parts]): value})
    except ConfigError as error:
        assert str(error)

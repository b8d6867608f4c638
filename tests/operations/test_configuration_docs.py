"""docs/configuration.md says what the models say."""

from cluster.config.models import parse
from scripts.generate_configuration import EXAMPLE, VARIABLES, document


def test_its_example_is_a_valid_file() -> None:
    assert parse(EXAMPLE, "example").cluster.limits.connections == 1000


def test_every_key_is_explained() -> None:
    assert "None" not in document()


def test_its_variables_are_valid_over_the_file() -> None:
    environment = dict(line.split("=", 1) for line in VARIABLES.splitlines())
    config = parse(EXAMPLE, "example", environment)
    assert str(config.listen.amqp) == str(config.cluster.nodes["n1"].amqp) == "127.0.0.1:5682"
    assert config.cluster.limits.connections == 500
    assert config.cluster.loopback_users == ("guest", "admin")

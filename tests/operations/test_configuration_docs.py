"""docs/configuration.md says what the models say."""

from cluster.config import parse
from scripts.generate_configuration import EXAMPLE, OUTPUT, document


def test_the_page_is_current() -> None:
    assert OUTPUT.read_text(encoding="utf-8") == document(), "run scripts/generate_configuration.py"


def test_its_example_is_a_valid_file() -> None:
    assert parse(EXAMPLE, "example").cluster.limits.connections == 1000


def test_every_key_is_explained() -> None:
    assert "None" not in document()

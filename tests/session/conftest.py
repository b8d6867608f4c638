"""A client of AMQP 1.0 with a broker of its own, for the tests that want no other."""

from __future__ import annotations

import pytest

from tests.session.attached import Client, NodeBroker


@pytest.fixture
def broker() -> NodeBroker:
    return NodeBroker()


@pytest.fixture
def client(broker: NodeBroker) -> Client:
    return Client(broker)

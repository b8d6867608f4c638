"""A client of AMQP 1.0 that loses connections, and attaches its link again at any node."""

from __future__ import annotations

import random
from collections.abc import Callable

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.frames import Frame
from tests.simulation.clients import Place
from tests.simulation.links import LinkConnection
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin


class Wanderer:
    """The connection of such a client, one after the other. `attached`: the node has attached the link."""

    def __init__(self, container: str, chance: random.Random, told: Callable[[Frame], None]) -> None:
        """`told` takes the frames of the node."""
        self.attached = False
        self._container, self._chance, self._take = container, chance, told
        self._life = 0
        self.connection: LinkConnection | None = None

    @property
    def connected(self) -> bool:
        """Whether the client has a connection, as far as it knows."""
        connection = self.connection
        return connection is not None and not connection.gone and connection.node.life == self._life

    def connect(self, place: Place, *performatives: d.Attach | d.Flow) -> None:
        """Open a connection with a session, and send these performatives in it."""
        self.attached, self._life = False, place.node.life
        connection: LinkConnection | None = None

        def told(frame: Frame) -> None:
            # Frames of an earlier connection do not come any more.
            if self.connection is connection:
                self._take(frame)

        self.connection = connection = LinkConnection(place, told)
        connection.tell(SASL_HEADER, PLAIN)
        opening = d.Open(self._container, max_frame_size=LARGE), begin()
        connection.tell(AMQP_HEADER, *opening, *performatives)

    def drop(self) -> None:
        """Leave without a word, or detach the link and then leave."""
        connection = self.connection
        if connection is not None and self.connected:
            if self._chance.random() < 0.3:
                connection.tell(d.Detach(0, False))
            connection.lost = True
            connection.node.input(connection.session.lost)
        self.connection, self.attached = None, False


def delivery_ids(told: d.Disposition) -> range:
    """The deliveries that a disposition is about."""
    return range(told.first, (told.first if told.last is None else told.last) + 1)

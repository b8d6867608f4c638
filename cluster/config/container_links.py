"""The table of links that nodes attach to clients' containers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cluster.config.tables import Section

Text = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class ContainerLinkSettings(Section):
    """A link that nodes attach, over AMQP 1.0, on each connection of a client's container.

    The node begins a session of its own, and needs the rights of the user who has logged in, as for a link
    of the client. The node logs the end of such a link, and attaches it again when the container connects
    again.
    """

    container: Text = Field(
        description="The container-id in the client's Open. One `*` stands for any text: `billing-*`."
    )
    vhost: Text = Field(default="/", description="The virtual host of the connection.")
    direction: Literal["send", "receive"] = Field(
        description="`send`: the node sends the messages of a queue to the container. `receive`: it "
        "publishes the messages that the container sends."
    )
    address: Text = Field(
        description="The queue whose messages are sent, or the queue or exchange to which they are "
        "published, as in [amqp10.md](amqp10.md#addresses)."
    )
    container_address: Text = Field(
        description="The address at the container: the link's target there, or its source."
    )

    @model_validator(mode="after")
    def _addresses_name_nodes(self) -> Self:
        paths = ("/queues/",) if self.direction == "send" else ("/queues/", "/exchanges/")
        if self.address.startswith("/") and not self.address.startswith(paths):
            raise ValueError(f'address "{self.address}" begins with none of {" and ".join(paths)}')
        if self.container.count("*") > 1:
            raise ValueError(f'container "{self.container}" has more than one `*`')
        return self

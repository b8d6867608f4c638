"""The links that the node attaches to clients' containers, where a protocol has such links."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerLink:
    """A link that the node attaches on each connection of a container, in one virtual host.

    `container` is the container's id; one `*` in it stands for any text. With `sends` the node sends the
    messages of the queue `address` to `container_address`; else it publishes those from there to `address`.
    """

    name: str
    container: str
    vhost: str
    sends: bool
    address: str
    container_address: str

    def concerns(self, container_id: str, vhost: str) -> bool:
        """Whether the link is for the connection of this container in this virtual host."""
        before, star, behind = self.container.partition("*")
        if vhost != self.vhost or not star:
            return vhost == self.vhost and container_id == before
        long_enough = len(container_id) >= len(before) + len(behind)
        return long_enough and container_id.startswith(before) and container_id.endswith(behind)

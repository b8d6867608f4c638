"""The table of queues that nodes declare when they start."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from cluster.config.container_links import Text
from cluster.config.tables import Section


class DeclaredQueueSettings(Section):
    """A durable queue that each node declares when it starts, before it listens for clients.

    A queue that is there must be the same: otherwise the node does not start, and says which setting is
    another one. A queue that is taken out of the table stays; delete it with `quorate queues delete`.
    """

    name: str = Field(
        default="",
        max_length=255,
        description="The name of the queue; without it the queue has the name of the table.",
    )
    vhost: Text = Field(default="/", description="The virtual host, which must be there.")
    type: Literal["quorum", "classic", "stream"] | None = Field(
        default=None,
        description="Replicated, on one node, or replicated and kept for all readers; without it, what the "
        "virtual host or the cluster is set to.",
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="The arguments of the declaration, as clients give them: `{ x-max-length = 1000 }` "
        "([queues.md](queues.md#arguments-of-queues)).",
    )

    @model_validator(mode="after")
    def _type_is_named_once(self) -> DeclaredQueueSettings:
        if "x-queue-type" in self.arguments:
            raise ValueError("x-queue-type is no argument here: the key `type` says it")
        return self

"""One request to the management API, as its handlers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.admin.api.audience import Audience
from cluster.admin.api.fields import Fields
from node.session.ports import Identity


@dataclass(frozen=True, slots=True)
class Call:
    """`path` holds the names in the path, decoded."""

    identity: Identity
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def user(self) -> str:
        return self.identity.user

    @property
    def vhost(self) -> str:
        return self.path["vhost"]

    @property
    def monitors(self) -> bool:
        """Whether the user may see connections, channels and queues of other users."""
        return Audience.MONITORING.allows(self.identity.tags)

    def fields(self) -> Fields:
        """The body; raises ApiError."""
        return Fields.parse(self.body)

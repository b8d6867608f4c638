"""The users who may use an operation of the management API, by their tags."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from cluster.catalog.access.records import ADMINISTRATOR


class Audience(Enum):
    """`tags`: a user needs one of them; `refusal`: the answer to a user who has none."""

    MANAGEMENT = ({"management", "policymaker", "monitoring", ADMINISTRATOR}, "Not management user")
    POLICYMAKER = ({"policymaker", ADMINISTRATOR}, "User not authorised to access object")
    MONITORING = ({"monitoring", ADMINISTRATOR}, "Not monitor user")
    ADMINISTRATOR = ({ADMINISTRATOR}, "Not administrator user")

    def allows(self, tags: Iterable[str]) -> bool:
        return not self.value[0].isdisjoint(tags)

    @property
    def refusal(self) -> str:
        return self.value[1]

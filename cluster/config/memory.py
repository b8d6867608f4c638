"""How much memory a node may take."""

from __future__ import annotations

from cluster.config.tables import ResourceAlarms
from cluster.system import resources


def memory_watermark(settings: ResourceAlarms) -> int:
    """Octets that a node may take on this machine before its alarm goes off."""
    share = int(settings.memory_high_watermark * resources.memory_total())
    return settings.memory_high_watermark_bytes or share

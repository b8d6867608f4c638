"""The node's attaches (part 2, section 2.6.3). Its answers have the peer's fields, with the termini that are
there (part 3, section 3.5).
"""

from __future__ import annotations

from node.wire.amqp10.definitions import (
    Attach,
    Coordinator,
    Modified,
    Role,
    SenderSettleMode,
    Source,
    StdDistMode,
    Target,
)
from node.wire.amqp10.field_readers import CompositeField
from node.wire.amqp10.links import Link, NodeLink, OutgoingLink
from node.wire.amqp10.outcomes import OUTCOMES, bare, outcome_of
from node.wire.amqp10.retention import UNTIL_DETACH, Retention
from node.wire.amqp10.transactions import COORDINATOR


def answer(link: Link, max_message_size: int) -> Attach:
    """The answer that attaches a link."""
    asked, mode = link.attach, link.attach.snd_settle_mode
    source, target, count, unsettled = asked.source, asked.target, None, None
    if isinstance(link, OutgoingLink):
        source, count = _kept(source, link.retention), 0
        if isinstance(source, Source):
            source.filter = link.filters
            source.distribution_mode = StdDistMode.COPY if link.subscribes else source.distribution_mode
        mode = SenderSettleMode.SETTLED if link.presettled else mode
        unsettled = None if link.recovery is None else link.recovery.told()
    else:
        target = _kept(target, link.retention)
        unsettled = None if link.kept is None else link.kept.told()
    return Attach(
        asked.name,
        link.handle,
        not asked.role,
        mode,
        asked.rcv_settle_mode,
        source,
        target,
        unsettled,
        initial_delivery_count=count,
        max_message_size=max_message_size,
    )


def offer(link: NodeLink, handle: int, max_message_size: int) -> Attach:
    """The attach of a link that the node attaches first."""
    sends = link.role is Role.SENDER
    return Attach(
        link.name,
        handle,
        link.role,
        source=_kept(Source(link.address)) if sends else Source(link.remote_address),
        target=Target(link.remote_address) if sends else _kept(Target(link.address)),
        initial_delivery_count=0 if sends else None,
        max_message_size=max_message_size,
    )


def refusal(link: Link) -> Attach:
    """The answer in front of a detach: the terminus at the node is null (part 2, section 2.6.3)."""
    asked = link.attach
    receives = asked.role is Role.RECEIVER
    return Attach(
        asked.name,
        link.handle,
        not asked.role,
        asked.snd_settle_mode,
        asked.rcv_settle_mode,
        None if receives else asked.source,
        asked.target if receives else None,
        initial_delivery_count=0 if receives else None,
    )


def _kept(terminus: CompositeField | None, retention: Retention = UNTIL_DETACH) -> CompositeField | None:
    """The terminus as the node keeps it, with a distribution mode, without the peer's filters, and with the
    outcomes that there are (section 3.5.3).
    """
    if isinstance(terminus, Coordinator):
        return COORDINATOR
    durable, expiry, timeout = retention.durable, retention.expiry, retention.timeout_s
    properties = None
    if isinstance(terminus, Source | Target) and terminus.dynamic:
        properties = terminus.dynamic_node_properties
    if isinstance(terminus, Source):
        mode = terminus.distribution_mode or StdDistMode.MOVE
        default = _kept_default(terminus.default_outcome)
        outcomes = tuple(one for one in terminus.outcomes if one in OUTCOMES)
        return Source(
            terminus.address,
            durable,
            expiry,
            timeout,
            terminus.dynamic,
            properties,
            mode,
            None,
            default,
            outcomes,
            terminus.capabilities,
        )
    if isinstance(terminus, Target):
        return Target(
            terminus.address,
            durable,
            expiry,
            timeout,
            terminus.dynamic,
            properties,
            terminus.capabilities,
        )
    return terminus


def _kept_default(state: CompositeField | None) -> CompositeField | None:
    """The default outcome, where it is an outcome. Each modification states its annotations itself."""
    if isinstance(state, Modified):
        return bare(state)
    return state if outcome_of(state) is not None else None

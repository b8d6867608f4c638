"""Spans as OpenTelemetry's SDK makes and sends them: OTLP over HTTP, by a thread of the SDK's own.

Only this module imports `opentelemetry`, and a node without traces does not import this module.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

from cluster.admin.traces.context import Counts
from cluster.admin.traces.spans import PUBLISH, SETTLE, Attributes
from cluster.config.identity import version
from cluster.config.tables import TraceSettings

QUEUED_SPANS: Final = 4096
"""Spans that may wait to be sent; of more the oldest are dropped."""

SEND_INTERVAL_MS: Final = 1000
SENT_AT_ONCE: Final = 512
EXPORT_TIMEOUT_S: Final = 3.0
"""How long a request may take, further tries included."""

LAST_SPANS_S: Final = 0.8
"""How long a node that stops waits for its last spans to be sent."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_KINDS: Final = {PUBLISH: SpanKind.SERVER, SETTLE: SpanKind.SERVER}
"""The spans of a client's request; all other spans are internal."""


class OtlpSpans:
    """Implements `cluster.admin.traces.spans.Spans`."""

    def __init__(self, settings: TraceSettings, node: str, cluster: str) -> None:
        resource = Resource.create(
            {
                "service.name": "quorate",
                "service.namespace": cluster,
                "service.instance.id": node,
                "service.version": version(),
            }
        )
        ratio = TraceIdRatioBased(settings.sample_ratio)
        # The trace's id decides, so that all nodes decide alike, and as OpenTelemetry's sampler does.
        self._mask, self._bound = ratio.TRACE_ID_LIMIT, ratio.bound
        self._provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                OTLPSpanExporter(endpoint=settings.endpoint, timeout=EXPORT_TIMEOUT_S),
                max_queue_size=QUEUED_SPANS,
                schedule_delay_millis=SEND_INTERVAL_MS,
                max_export_batch_size=SENT_AT_ONCE,
            )
        )
        self._tracer = self._provider.get_tracer("quorate", version())

    def clock(self) -> int:
        return time.time_ns()

    def records(self, trace: int) -> bool:
        return trace & self._mask < self._bound

    def add(self, name: str, counts: Counts, since: int, attributes: Attributes) -> None:
        now = time.time_ns()
        for context, count in counts.items():
            remote = SpanContext(context.trace, context.span, is_remote=True, trace_flags=_SAMPLED)
            span = self._tracer.start_span(
                name,
                context=set_span_in_context(NonRecordingSpan(remote)),
                kind=_KINDS.get(name, SpanKind.INTERNAL),
                attributes={
                    "messaging.system": "quorate",
                    "messaging.operation.name": name,
                    "messaging.batch.message_count": count,
                    **attributes,
                },
                start_time=since,
            )
            span.end(end_time=max(now, since))

    def close(self) -> None:
        """Send the waiting spans. Blocks, for `LAST_SPANS_S` at most."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(LAST_SPANS_S)

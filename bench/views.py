"""The figure of a view over a queue, beside a plain queue with the same messages. Of quorate alone."""

from __future__ import annotations

from bench.breadth import channel_to
from bench.measures import Samples, Stage
from bench.mixed import local
from bench.quorate import Quorate

SITES = 1000
"""So many groups has the view."""

FIELDS = {"site": "site", "messages": "COUNT(*)", "least": "MIN(attempt)", "attempts": "SUM(attempt)"}


def viewed(stage: Stage) -> Samples:
    """The rate through a queue with a view that groups the messages, as a share of the rate without it."""
    if not isinstance(stage.cluster, Quorate):
        return {}
    rates = []
    for named in ("with a view", "plain"):
        with channel_to(stage.cluster.address(0)) as channel:
            channel.queue_declare("bench", durable=True, arguments={"x-queue-type": "quorum"})
        if named != "plain":
            view = {"queue": "bench", "group_by": ["site"], "fields": FIELDS}
            stage.cluster.put("views/%2F/bench", view)
        result = stage.check(named, local(stage, sites=SITES))
        with channel_to(stage.cluster.address(0)) as channel:
            channel.queue_delete("bench")
        rates.append(result.end_to_end_rate)
    return {"share": [rates[0] / rates[1]]}

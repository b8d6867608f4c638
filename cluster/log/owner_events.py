"""Events of the owners of partitions: work that ends without its clients, and the past of queues."""

from __future__ import annotations

from typing import Final

from cluster.log.event import NO_REMEDY, Event

OWNER_EVENTS: Final = (
    Event(
        "Q210",
        "epoch_overdue",
        "A sink's epoch was dropped: no client has committed or aborted the epoch for `epoch_timeout_s`.",
        "A job that writes to queues was killed, or its driver was away for too long. No message of the "
        "epoch was visible, and none will be.",
        "Run the job again: it writes the epoch anew. Raise `cluster.epoch_timeout_s` where a batch takes "
        "longer.",
    ),
    Event(
        "Q211",
        "take_overdue",
        "The takes of a reader have ended: the queue's owner has heard nothing of the reader for "
        "`take_timeout_s`. Their messages are ready again.",
        "A job that reads the queue was killed, or is away for too long, or one of its batches takes longer.",
        "Run the job again, under another reader. Raise `cluster.take_timeout_s` where a batch takes longer.",
    ),
    Event(
        "Q212",
        "reader_overtaken",
        "Retention has removed messages of a stream that a reader has not read: the reader was further "
        "behind than its max lag. `lost` messages by then; the reader may lose more.",
        "The program that reads under this name is gone, or slower than the publishers.",
        "Start the program, or delete the reader. Raise its max lag where the program needs more time.",
    ),
    Event(
        "Q213",
        "queue_refilled",
        "A queue over a stream has got another recovery point, and the messages from there on that the queue "
        "has never had. `had_from`: the bookmark from which on the queue has had all messages. The queue has "
        "`messages`, of which `oldest` is the first; a queue that decides about each message gets more.",
        "A policy with `recovery-point`, or an update of the queue.",
        NO_REMEDY,
    ),
    Event(
        "Q214",
        "queue_goes_on",
        "A queue over a stream has got another recovery point, and no messages with it: it has had all "
        "messages from there on. It goes on with `oldest`, or, without one, with the next message that its "
        "stream takes. `known` is false where the log does not have from where on the queue has had all "
        "messages: the queue was declared while a node ran an earlier release.",
        "A policy with `recovery-point` is set, changed or deleted, or an update of the queue.",
        "To have messages again that have left the queue, bring them back (`quorate queues undo`). Where "
        "`known` is false, declare another queue with the recovery point.",
    ),
    Event(
        "Q215",
        "past_passed",
        "Retention has removed messages of a stream that its owner had not sent to `queue`, a queue over a "
        "pattern with a recovery point in another partition. The queue does not get them, and goes on with "
        "`oldest`, or, without one, with the next message that the stream takes.",
        "The partition of the queue cannot be reached, or takes messages more slowly than the stream does.",
        "Raise the retention of the stream, or find out why the partition of the queue is behind.",
    ),
    Event(
        "Q216",
        "stream_not_fed",
        "A stream with `x-view` gets no changes of its view. `cause` is `no_view`: there is no view of the "
        "name, or no queue under it; or `too_many_rows`: the view has more than 100,000 rows. The stream "
        "keeps its messages, and its owner looks for the view again.",
        "The view is deleted, or the queue under it, or its rows have become too many.",
        "Define the view again, or delete the stream. For fewer rows group by less, or give the view a "
        "filter.",
    ),
    Event(
        "Q217",
        "stream_fed",
        "A stream with `x-view` gets the changes of its view again, and first those of the time before.",
        "The view is there again, or has fewer rows.",
        NO_REMEDY,
    ),
)

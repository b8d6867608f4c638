"""Every event that a node logs: its code, meaning, cause and remedy.

`quorate logs explain CODE` prints one event, docs/logs.md has them all. An event's code never changes.
"""

from __future__ import annotations

from typing import Final

from cluster.log.event import NO_REMEDY, Event
from cluster.log.owner_events import OWNER_EVENTS

EVENTS: Final = (
    Event(
        "Q101",
        "journal_opened",
        "The node has read its journal; the event has the octets read and the seconds taken.",
        "The node starts.",
        NO_REMEDY,
    ),
    Event(
        "Q102",
        "listening",
        "The node is part of the cluster and takes clients on the ports that the event names.",
        "The node's start is over.",
        NO_REMEDY,
    ),
    Event(
        "Q103",
        "handed_over",
        "The node stops and has handed its partitions to other owners; `complete` says whether all of them.",
        "SIGTERM or SIGINT. Not complete: other nodes are down, or did not catch up within the time.",
        "Nothing if `complete` is true. Otherwise the queues of the other partitions pause for an election: "
        "stop one node at a time, and wait until the others are ready.",
    ),
    Event("Q104", "stopped", "The node has stopped in order.", "SIGTERM or SIGINT.", NO_REMEDY),
    Event(
        "Q105",
        "journal_failed",
        "A write or fdatasync of the journal has failed. The node gives up its partitions and ends with exit "
        "code 74, because the other nodes could not trust its word about its log.",
        "A broken or full disk, or a disk that was taken away.",
        "Repair the disk or free space on it, or give the node an empty data directory: the node gets "
        "everything back from the others. Then start it again.",
    ),
    Event(
        "Q106",
        "time_slice_refused",
        "The kernel does not give the node short time slices.",
        "Linux before 6.12, or no right to ask for short time slices.",
        "Nothing. To turn off the warning, set `node.time_slice_us = 0`.",
    ),
    Event(
        "Q107",
        "resource_alarm",
        "Nodes are short of memory or disk, and publishers are held back in the whole cluster. An event "
        "without `reason` says that publishers may go on.",
        "More messages wait than `cluster.alarms` allows, or another program fills the disk.",
        "Let consumers catch up, purge queues, or give the nodes more memory or disk. `nodes` names the "
        "nodes and the resources that they lack.",
    ),
    Event(
        "Q108",
        "certificates_loaded",
        "The node has read the certificate's files again: new connections get the certificate in them.",
        "The files have changed, or the node got SIGHUP.",
        NO_REMEDY,
    ),
    Event(
        "Q109",
        "certificates_unusable",
        "The node cannot use the certificate's files, and keeps the certificate that it had loaded before.",
        "The files are incomplete, do not belong together or cannot be read: see `reason`.",
        "Correct the files of the certificate, its key and its chain.",
    ),
    Event(
        "Q110",
        "log_not_set_aside",
        "The log's file has reached `node.log.file_bytes`, but the node could not rename it. The file grows "
        "on.",
        "No right to rename files in its directory, or a broken disk: see `reason`.",
        "Remove the cause in `reason`. The node tries again after another `node.log.file_bytes`.",
    ),
    Event(
        "Q111",
        "journal_damaged",
        "The node cannot read its journal back from disk, and no other node has all of its content. The node "
        "ends, or does not start, with exit code 65.",
        "A disk that returns other octets than it was given, or another program that has written to the "
        "file: `what` names the file, the offset and the damage, and says why the start does not set the "
        "journal aside (`journal_set_aside`).",
        "Do what `what` says: give the node an empty data directory; the node gets replicated partitions "
        "back from the others.",
    ),
    Event(
        "Q112",
        "node_failed",
        "An exception was raised in state that the node shares with all clients and the other nodes. From "
        "that moment the node has answered no client and no node; it ends with exit code 70, and other nodes "
        "own its queues.",
        "A defect of quorate, defective memory, or a peer that breaks the protocol: see `where`, `what` and "
        "the traceback.",
        "Start the node again, which a service manager does by itself: the node goes on from its journal and "
        "gets missing entries from the others. Report the traceback.",
    ),
    Event(
        "Q113",
        "entry_damaged",
        "An entry of the journal does not read back as it was written. The node has given no part of it to a "
        "client or another node. It no longer leads the partition, and asks the other replicas for the "
        "entry.",
        "A disk that returns other octets than it was given, or another program that has written to the "
        "file.",
        "Nothing at once, if `entry_repaired` follows. Check the disk: it may damage more entries.",
    ),
    Event(
        "Q114",
        "entry_repaired",
        "The node has replaced a damaged entry: `peer` had it.",
        "See `entry_damaged`.",
        "Check the disk.",
    ),
    Event(
        "Q115",
        "messages_lost",
        "The node cannot read the contents of some messages, and no other replica has them. The queue has "
        "dropped these messages, and serves the rest.",
        "See `entry_damaged`. The queue has one replica, as classic queues have, or all replicas are "
        "damaged.",
        "Check the disk. Queues of type `quorum` have other replicas, which could have given the contents "
        "back.",
    ),
    Event(
        "Q117",
        "journal_set_aside",
        "The starting node found damage in its journal. The other nodes have everything that was in it: the "
        "node has moved the journal to `journal.damaged` in its data directory, and gets everything back "
        "from them.",
        "A disk that returns other octets than it was given, or another program that has written to the "
        "file.",
        "Wait for `rebuilt`, and stop no other node meanwhile. Check the disk: it may damage more entries.",
    ),
    Event(
        "Q118",
        "damaged_journal_removed",
        "The node has removed the journal that an earlier start had set aside.",
        "The node has its content back from the other nodes, and has started again.",
        NO_REMEDY,
    ),
    Event(
        "Q119",
        "token_keys_loaded",
        "The node has read the keys that sign access tokens again: they count for log-ins from now on.",
        "The files have changed, or the node got SIGHUP.",
        NO_REMEDY,
    ),
    Event(
        "Q120",
        "token_keys_unusable",
        "The node cannot use the files with the keys that sign access tokens, and keeps the keys that it had "
        "loaded before.",
        "The files are incomplete or cannot be read, or have keys of kinds that nodes do not take: see "
        "`reason`.",
        "Correct the files in `[node.tokens]`.",
    ),
    Event(
        "Q121",
        "archive_failed",
        "The node could not store a segment of its journal in the archive. The segment stays in the journal, "
        "and the node tries again every 30 seconds.",
        "The disk of the archive is full, fails, or is not there: see `error`.",
        "Free space in `node.archive_directory`, or lower `node.archive_max_bytes`. Clients notice nothing.",
    ),
    Event(
        "Q122",
        "archive_works",
        "The archive of the journal takes segments again.",
        "The reason of `archive_failed` is gone.",
        NO_REMEDY,
    ),
    Event(
        "Q123",
        "segment_not_archived",
        "A segment of the journal was used again, and is in no archive: more than "
        "`node.archive_waiting_bytes` waited for the archive.",
        "The archive has failed for long (`archive_failed`), or its disk is slower than the journal.",
        "Archives of other nodes have the same messages. Repair the archive's disk, or take a quicker one.",
    ),
    Event(
        "Q124",
        "metadata_in_memory",
        "The node could not write ranges and annotations of queues with `x-file-backed-metadata` to the file "
        "`metadata` in its data directory, and keeps them in memory. No message is lost.",
        "The disk is full, or fails: see `error`.",
        "Free space on the disk. The node tries again when the queues have grown.",
    ),
    Event(
        "Q125",
        "metadata_in_file",
        "The node can write to the file `metadata` again.",
        "The disk has room again.",
        NO_REMEDY,
    ),
    Event(
        "Q201",
        "rebuilding",
        "The node has lost its disk or its journal, and gets everything back from the others. Until then it "
        "gives no votes.",
        "Its data directory is empty, but the cluster is not new, or its journal was damaged: see `reason`.",
        "Wait for `rebuilt`, and stop no other node meanwhile.",
    ),
    Event(
        "Q202",
        "rebuilt",
        "The node has got back the content of its lost disk or journal, and votes again.",
        "See `rebuilding`.",
        NO_REMEDY,
    ),
    Event(
        "Q203",
        "configured_users_unknown",
        "Users of the configuration are not in the cluster.",
        "Nodes read users once, when a cluster is founded; these users were configured later or deleted "
        "since.",
        "`quorate users add`, or remove the users from the configuration. If no administrator can log in any "
        "more, start a node with `--restore-users`.",
    ),
    Event(
        "Q204",
        "users_restored",
        "The users of the configuration are in the cluster again, with all rights.",
        "The node was started with `--restore-users`.",
        "Start the node without that option from now on.",
    ),
    Event(
        "Q205",
        "waits_to_be_added",
        "The node is not a member of the cluster that it is configured for.",
        "The node is new, and no administrator has added it yet.",
        "Run the command in `command`, `quorate cluster add NODE …`, on any node that is a member.",
    ),
    Event(
        "Q206",
        "removed",
        "The node is no longer a member of the cluster.",
        "`quorate cluster remove` or `replace`.",
        "Stop the node. Its data directory is of no use any more. If the node has been added again "
        "since, start it again.",
    ),
    Event(
        "Q207",
        "peer_message_refused",
        "A message of another node is malformed. The node has ignored it and closed the connection that it "
        "came over; the other node makes a new connection.",
        "A defect, or a release of the other node that this one does not understand: see `peer` and "
        "`reason`.",
        "If the releases of the nodes differ, make sure that they are no more than one apart. Otherwise "
        "report the event.",
    ),
    Event(
        "Q208",
        "question_failed",
        "This node could not answer a question of another node's management API.",
        "A defect of quorate; no client is concerned.",
        "Report it with the traceback.",
    ),
    Event(
        "Q209",
        "waits_for_first_starts",
        "The node waits with the queues of its configuration, and listens for no clients yet.",
        "The cluster is new, and the members in `nodes` have not started yet: it is not known whether their "
        "release has the arguments of these queues.",
        "Start these nodes.",
    ),
    *OWNER_EVENTS,
    Event(
        "Q301",
        "negotiation_failed",
        "A client's connection was closed before it was open.",
        "Wrong credentials, a protocol that the node does not speak, or no right to the virtual host: see "
        "`reason`.",
        "Correct the client's URL or its rights.",
    ),
    Event(
        "Q302",
        "address_blocked",
        "The node blocks this address for a while: it reads nothing from there.",
        "Too many failed negotiations: a program guesses passwords, or a client tries a wrong password again "
        "and again.",
        "Stop the client. `cluster.strangers` has the bounds.",
    ),
    Event(
        "Q303",
        "tls_handshake_failed",
        "A TLS handshake failed.",
        "The client does not trust the node's certificate, shows no certificate where the node requires one, "
        "or speaks no TLS.",
        "See `reason`; give the client the authority's certificate.",
    ),
    Event(
        "Q304",
        "heartbeat_missed",
        "A client sent nothing for two heartbeat intervals, and the node closed its connection.",
        "The client hangs or is gone, or the network between is broken.",
        "A client that does not read its socket for longer than the interval needs a longer interval.",
    ),
    Event(
        "Q305",
        "close_timeout",
        "A client did not answer connection.close; the node closed its socket.",
        "The client is gone, or has a defect.",
        NO_REMEDY,
    ),
    Event(
        "Q306",
        "channel_exception",
        "The node closed a channel because it refused a method; `reply_code` is 0-9-1's.",
        "A queue that does not exist (404), a declaration that differs from the first (406), no right (403): "
        "see `text`.",
        "Correct the client.",
    ),
    Event(
        "Q307",
        "connection_exception",
        "The node closed a connection because it refused a method or frame; `reply_code` is 0-9-1's, "
        "`condition` AMQP 1.0's.",
        "A client with a defect, or a client that exceeds limits that it agreed to: see `text`.",
        "Correct the client.",
    ),
    Event(
        "Q308",
        "framing_error",
        "A client sent octets that are no frames of 0-9-1; the node closed its socket.",
        "Another protocol on this port, or a client with a defect.",
        "See `reason`.",
    ),
    Event(
        "Q309",
        "session_failed",
        "The node closed a client's connection because of an exception that quorate did not expect. The "
        "client's unacknowledged messages went back to their queues; other clients are not concerned.",
        "A defect of quorate, which the client's input has shown.",
        "Report it with the traceback.",
    ),
    Event(
        "Q310",
        "client_memory_exhausted",
        "The clients of the node made it hold more than `cluster.limits.clients_memory_bytes`, and the node "
        "closed the connection that held most.",
        "Clients that begin large messages and do not end them, or do not read the messages that they asked "
        "for.",
        "Correct the client at `remote`; raise the limit if the client is right.",
    ),
    Event(
        "Q311",
        "connection_failed",
        "The node closed a socket because of an exception that quorate did not expect. Other connections are "
        "not concerned.",
        "A defect of quorate, which the socket's input has shown.",
        "Report it with the traceback.",
    ),
    Event(
        "Q312",
        "password_not_hashed",
        "The node could not hash a password, and refused the log-in or the change of the password. Other "
        "clients are not concerned.",
        "The system refused memory for scrypt, 16 MiB for each hash, or a defect of quorate: see `what`.",
        "Give the node more memory. Report the traceback if memory was not lacking.",
    ),
    Event(
        "Q313",
        "offered_link_ended",
        "A link that the node attached to a client's container has ended, or could not be attached.",
        "The container has refused or detached the link, the queue or exchange does not exist, or the user "
        "who has logged in has no right to it: see `reason`.",
        "Correct `cluster.links`, the container, or the user's rights. The node attaches the link again when "
        "the container connects again.",
    ),
    Event(
        "Q314",
        "token_refused",
        "A client that is connected has brought a new access token, which the node does not take. Over AMQP "
        "0-9-1 the node closes the connection; over AMQP 1.0 the token of before counts on.",
        "See `reason`: the token is of another user, grants nothing in the virtual host, or does not count.",
        "Have the issuer give the client the right token.",
    ),
    Event(
        "Q401",
        "management_failed",
        "A request to the management API failed with 500.",
        "A defect of quorate.",
        "Report it with the traceback.",
    ),
    Event(
        "Q402",
        "management_login_refused",
        "The management API refused a log-in.",
        "Wrong user or password; if `reason` does not say so, the user may not log in from that address.",
        "Correct the credentials: too many refusals block the address, as with clients.",
    ),
    Event(
        "Q403",
        "connection_closed_by_operator",
        "A user of the management API has closed a client's connection.",
        "See `reason`, if the user gave one.",
        NO_REMEDY,
    ),
    Event(
        "Q404",
        "definitions_left_out",
        "Imported definitions had entries that quorate does not know.",
        "The entries are RabbitMQ's: federation, shovels, parameters of plugins.",
        "Nothing, if you do not need `entries`.",
    ),
    Event(
        "Q405",
        "definitions_imported",
        "A user of the management API has imported definitions.",
        "POST /api/definitions, or `quorate definitions import`.",
        NO_REMEDY,
    ),
    Event(
        "Q406",
        "messages_moved",
        "A user of the management API has moved messages to another queue.",
        "A request to the API, or the console.",
        NO_REMEDY,
    ),
    Event(
        "Q407",
        "owner_change_asked",
        "A user of the management API has asked for another node to own a partition.",
        "A request to the API, or the console.",
        NO_REMEDY,
    ),
    Event(
        "Q408",
        "barrier_taken",
        "A user of the management API has taken a consistent cut through the logs of all partitions.",
        "POST /api/cluster/barrier, or `quorate barrier`.",
        NO_REMEDY,
    ),
    Event(
        "Q409",
        "messages_replayed",
        "A user of the management API has published messages of a queue anew.",
        "POST /api/queues/VHOST/NAME/replay, or `quorate queues replay`.",
        NO_REMEDY,
    ),
    Event(
        "Q410",
        "messages_brought_back",
        "A user of the management API has brought back messages that had left a queue.",
        "POST /api/queues/VHOST/NAME/undo, or `quorate queues undo`.",
        NO_REMEDY,
    ),
    Event(
        "Q901",
        "message",
        "A library has logged a message; `component` names the library.",
        "See `text`.",
        "An exception in the event loop (`asyncio`) is a defect of quorate: report it.",
    ),
)

CODES: Final = {event.name: event.code for event in EVENTS}


def find(word: str) -> Event | None:
    """The event with this code, in upper or lower case, or with this name; None if there is none."""
    for event in EVENTS:
        if word.upper() == event.code or word == event.name:
            return event
    return None

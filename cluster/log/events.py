"""Every event that a node logs: its code, what it means, why it happens and what to do.

`quorate logs explain CODE` prints an entry, docs/logs.md has them all. Codes stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Event:
    """An event. The first digit of its code tells where it comes from: 1 the process and its disk, 2 the
    cluster, 3 clients, 4 the management API, 9 libraries.
    """

    code: str
    name: str
    meaning: str
    cause: str
    remedy: str


NOTHING: Final = "Nothing."

EVENTS: Final = (
    Event(
        "Q101",
        "journal_opened",
        "The node has read its journal, of so many octets, in so many seconds.",
        "The node starts.",
        NOTHING,
    ),
    Event(
        "Q102",
        "listening",
        "The node is part of the cluster and takes clients on the ports that are named.",
        "Its start is over.",
        NOTHING,
    ),
    Event(
        "Q103",
        "handed_over",
        "A node that stops has given its partitions to other owners; `complete` says whether all of them.",
        "SIGTERM or SIGINT. Not complete: other nodes are down, or did not catch up within the time.",
        "Nothing where it is complete. Otherwise those queues pause for an election: stop one node at a "
        "time, and "
        "wait until the others are ready.",
    ),
    Event("Q104", "stopped", "The node has stopped in order.", "SIGTERM or SIGINT.", NOTHING),
    Event(
        "Q105",
        "journal_failed",
        "Writing the journal or making it durable has failed. The node gives up its partitions and ends "
        "with exit code 74: "
        "nothing that it would say about its log could be trusted.",
        "A broken or full disk, or one that was taken away.",
        "Repair the disk or free space on it, or give the node an empty data directory: it gets everything "
        "back from the others. Then start it again.",
    ),
    Event(
        "Q106",
        "time_slice_refused",
        "The kernel does not give the node short time slices.",
        "Linux before 6.12, or no right to ask for them.",
        "Nothing. Without the warning: `node.time_slice_us = 0`.",
    ),
    Event(
        "Q107",
        "resource_alarm",
        "Nodes are short of memory or disk, and publishers are held back in the whole cluster; without "
        "`reason`, "
        "they may go on.",
        "More messages wait than `cluster.alarms` allows, or something else fills the disk.",
        "Let consumers catch up, purge queues, or give the nodes more. `nodes` says which are short of what.",
    ),
    Event(
        "Q108",
        "certificates_loaded",
        "New connections get the certificate that is in the files now.",
        "The files have changed, or SIGHUP.",
        NOTHING,
    ),
    Event(
        "Q109",
        "certificates_unusable",
        "The certificate's files cannot be used; the one that was loaded before stays.",
        "They are incomplete, do not belong together or cannot be read.",
        "Put a certificate, its key and its chain there that `reason` does not complain of.",
    ),
    Event(
        "Q110",
        "log_not_set_aside",
        "The log's file is as long as `node.log.file_bytes`, but could not be set aside. It grows on.",
        "No right to rename files in its directory, or a broken disk: see `reason`.",
        "Mend what `reason` says. It is tried again once as much has been written again.",
    ),
    Event(
        "Q111",
        "journal_damaged",
        "What the journal had on disk cannot be read back, and no other node can replace it. The node ends, "
        "or does not start, with exit code 65.",
        "A disk that returns other octets than it was given, or a file that something else has written to: "
        "`what` names the file, the offset and what was found, and says why a start does not set the journal "
        "aside (`journal_set_aside`).",
        "`what` says it: give the node an empty data directory; it gets back what is replicated from the "
        "others.",
    ),
    Event(
        "Q112",
        "node_failed",
        "The node has met an exception in what it shares with all clients and the other nodes. From that "
        "moment it has answered nobody; it ends with exit code 70, and others own its queues.",
        "A defect of quorate, memory that does not keep what it is given, or a peer that breaks the "
        "protocol: see `where`, `what` and the traceback.",
        "Start it again, which a service manager does by itself: it goes on from its journal and gets from "
        "the others what it lacks. Report the traceback.",
    ),
    Event(
        "Q113",
        "entry_damaged",
        "An entry of the journal does not read back as it was written. Nothing of it was given to anybody; "
        "this node leads the partition no more, and asks the other replicas for the entry.",
        "A disk that returns other octets than it was given, or a file that something else has written to.",
        "Nothing at once, if `entry_repaired` follows. Look after the disk: it may go on like that.",
    ),
    Event(
        "Q114",
        "entry_repaired",
        "An entry that could not be read is whole again: `peer` had it.",
        "See `entry_damaged`.",
        "Look after the disk.",
    ),
    Event(
        "Q115",
        "messages_lost",
        "The contents of so many messages cannot be read, and no other replica has them. The queue has "
        "let go of them, and serves the rest.",
        "See `entry_damaged`. The queue has one replica, as classic queues have, or all replicas are "
        "damaged.",
        "Look after the disk. Queues of type `quorum` have replicas that would have mended it.",
    ),
    Event(
        "Q117",
        "journal_set_aside",
        "The start met damage in the journal. The other nodes have everything that was in it: the node has "
        "moved the journal to `journal.damaged` in its data directory, and gets everything back from them.",
        "A disk that returns other octets than it was given, or a file that something else has written to.",
        "Wait for `rebuilt`, and stop no other node meanwhile. Look after the disk: it may go on like that.",
    ),
    Event(
        "Q118",
        "damaged_journal_removed",
        "The node has removed the journal that an earlier start had set aside.",
        "Everything that was in it is back from the other nodes, and the node has started again.",
        NOTHING,
    ),
    Event(
        "Q201",
        "rebuilding",
        "The node has lost its disk or its journal, and gets everything back from the others. It gives no "
        "votes until then.",
        "Its data directory is empty, but the cluster is not new, or its journal was damaged: see `reason`.",
        "Wait for `rebuilt`, and stop no other node meanwhile.",
    ),
    Event(
        "Q202",
        "rebuilt",
        "The node has everything back that its lost disk or journal had, and votes again.",
        "See `rebuilding`.",
        NOTHING,
    ),
    Event(
        "Q203",
        "configured_users_unknown",
        "Users of the configuration are not in the cluster.",
        "Users are read once, when a cluster is founded; these came later or were deleted since.",
        "`quorate users add`, or take them out of the configuration. Nobody can get in any more: start a "
        "node with "
        "`--restore-users`.",
    ),
    Event(
        "Q204",
        "users_restored",
        "The users of the configuration are in the cluster again, with all rights.",
        "The node was started with `--restore-users`.",
        "Start it without from now on.",
    ),
    Event(
        "Q205",
        "waits_to_be_added",
        "The node is not a member of the cluster that it is configured for.",
        "It is new, and nobody has added it yet.",
        "Say what is in `command`, `quorate cluster add NODE …`, on any node that is a member.",
    ),
    Event(
        "Q206",
        "removed",
        "The node is a member of the cluster no more.",
        "`quorate cluster remove` or `replace`.",
        "Stop it. Its data directory is of no use any more.",
    ),
    Event(
        "Q207",
        "peer_message_refused",
        "A message of another node has another form than messages of its kind have. Nothing was done "
        "about it, and the connection that it came over was closed; the other node makes a new one.",
        "A defect, or a release that does not go together with this one: see `peer` and `reason`.",
        "Where the releases of the nodes differ, see that they are no more than one apart. Otherwise report "
        "it.",
    ),
    Event(
        "Q208",
        "question_failed",
        "Another node has asked something for its management API, which this node could not answer.",
        "A defect of quorate; no client is concerned.",
        "Report it with the traceback.",
    ),
    Event(
        "Q301",
        "negotiation_failed",
        "A client's connection was closed before it was open.",
        "Wrong credentials, a protocol that is not spoken here, or no right to the virtual host: see "
        "`reason`.",
        "Correct the client's URL or its rights.",
    ),
    Event(
        "Q302",
        "address_blocked",
        "Nothing from this address is listened to for a while.",
        "Too many failed negotiations: somebody guesses passwords, or a client tries again and again with "
        "a wrong one.",
        "Stop the client. `cluster.limits` has the bounds.",
    ),
    Event(
        "Q303",
        "tls_handshake_failed",
        "A TLS handshake came to nothing.",
        "The client does not trust the node's certificate, shows none where one is wanted, or speaks no TLS.",
        "See `reason`; give the client the authority's certificate.",
    ),
    Event(
        "Q304",
        "heartbeat_missed",
        "Nothing came from a client for two heartbeat intervals, and its connection was closed.",
        "The client hangs or is gone, or the network between is broken.",
        "A client that works for longer than the interval between two looks at its socket needs a longer "
        "interval.",
    ),
    Event(
        "Q305",
        "close_timeout",
        "A client did not answer connection.close; its socket was closed.",
        "The client is gone, or has a defect.",
        NOTHING,
    ),
    Event(
        "Q306",
        "channel_exception",
        "A channel was closed because of what its client asked; `reply_code` is 0-9-1's.",
        "A queue that is not there (404), another declaration than that of before (406), no right (403): "
        "see `text`.",
        "Correct the client.",
    ),
    Event(
        "Q307",
        "connection_exception",
        "A connection was closed because of what its client sent; `reply_code` is 0-9-1's.",
        "A client with a defect, or limits that were agreed and not kept: see `text`.",
        "Correct the client.",
    ),
    Event(
        "Q308",
        "framing_error",
        "What came from a client are no frames of 0-9-1; its socket was closed.",
        "Another protocol on this port, or a client with a defect.",
        "See `reason`.",
    ),
    Event(
        "Q309",
        "session_failed",
        "A client's connection was closed because of an exception that quorate did not expect. What the "
        "client held went back; other clients are not concerned.",
        "A defect of quorate, which something in what the client sent has shown.",
        "Report it with the traceback.",
    ),
    Event(
        "Q310",
        "client_memory_exhausted",
        "The clients of a node made it hold more than `cluster.limits.clients_memory_bytes`, and the "
        "connection that held most was closed.",
        "Clients that begin large messages and do not end them, or do not read what they have asked for.",
        "Correct the client at `remote`; grant more where it is right.",
    ),
    Event(
        "Q311",
        "connection_failed",
        "A socket was closed because of an exception that quorate did not expect. Other connections are not "
        "concerned.",
        "A defect of quorate, which something that came over the socket has shown.",
        "Report it with the traceback.",
    ),
    Event(
        "Q312",
        "password_not_hashed",
        "A password could not be hashed: that log-in, or that change of a password, was refused. Other "
        "clients are not concerned.",
        "Memory for scrypt was refused: 16 MiB for each hash; or a defect of quorate: see `what`.",
        "Give the node more memory. Report the traceback where memory is not what was lacking.",
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
        "Somebody did not get into the management API.",
        "Wrong user or password; without a reason that says so, no right to log in from there.",
        "Too many of them block the address, as with clients.",
    ),
    Event(
        "Q403",
        "connection_closed_by_operator",
        "A user of the management API has closed a client's connection.",
        "See `reason`, if one was given.",
        NOTHING,
    ),
    Event(
        "Q404",
        "definitions_left_out",
        "Imported definitions had entries that mean nothing here.",
        "They come from RabbitMQ: federation, shovels, parameters of plugins.",
        "Nothing, if `entries` are not needed.",
    ),
    Event(
        "Q405",
        "definitions_imported",
        "A user of the management API has imported definitions.",
        "POST /api/definitions, or `quorate definitions import`.",
        NOTHING,
    ),
    Event(
        "Q406",
        "messages_moved",
        "A user of the management API has moved messages to another queue.",
        "A request to the API, or the console.",
        NOTHING,
    ),
    Event(
        "Q407",
        "owner_change_asked",
        "A user of the management API wants another node to own a partition.",
        "A request to the API, or the console.",
        NOTHING,
    ),
    Event(
        "Q901",
        "message",
        "A library has logged something; `component` says which.",
        "See `text`.",
        "An exception in the event loop (`asyncio`) is a defect of quorate: report it.",
    ),
)

CODES: Final = {event.name: event.code for event in EVENTS}


def find(word: str) -> Event | None:
    """The event of this code, in any case, or of this name."""
    for event in EVENTS:
        if word.upper() == event.code or word == event.name:
            return event
    return None

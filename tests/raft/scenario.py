"""Scenarios: text files of commands and what the replicas answer, to be read by people.

A line `> command` is followed by its expected output; lines that begin with `#` and empty lines are
prose. Time stands still, and no message travels, except in `deliver` and `run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from replication.raft import (
    Membership,
    MembershipChange,
    Message,
    Raft,
    RaftConfig,
    RaftError,
    SnapshotRequest,
)
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    AppendResponse,
    CommitNotice,
    HeartbeatRequest,
    HeartbeatResponse,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.raft.memory_log import MemoryLog


def members_text(membership: Membership) -> str:
    """`abc`, joint `abd(abc)`, learners `abc+e`."""
    text = "".join(sorted(membership.voters))
    if membership.outgoing:
        text += f"({''.join(sorted(membership.outgoing))})"
    if membership.learners:
        text += f"+{''.join(sorted(membership.learners))}"
    return text


def details(message: Message) -> str:
    """The fields of a message without sender and receiver."""
    match message:
        case PreVoteRequest() | VoteRequest():
            return f"last {message.last_index}/{message.last_term}"
        case PreVoteResponse() | VoteResponse():
            return "granted" if message.granted else "refused"
        case AppendRequest():
            sent = " ".join(f"{entry.index}/{entry.term}" for entry in message.entries)
            after = f"after {message.prev_index}/{message.prev_term}"
            return f"{after} [{sent}] commit {message.commit}"
        case AppendResponse() | CommitNotice():
            return f"up to {message.index}"
        case AppendRejection():
            return f"not after {message.index}, try {message.hint_index}/{message.hint_term}"
        case HeartbeatRequest():
            return f"commit {message.commit}" + (f" round {message.round}" if message.round else "")
        case HeartbeatResponse():
            return f"round {message.round}" if message.round else ""
        case SnapshotRequest():
            return f"at {message.snapshot.index}/{message.snapshot.term}"
        case ReadIndexRequest():
            return message.context.decode()
        case ReadIndexResponse():
            return f"{message.context.decode()} at {message.index}"
        case TimeoutNow():
            return ""


@dataclass
class Member:
    """A replica whose disk writes only when `sync` is called."""

    name: str
    log: MemoryLog
    disk: MemoryLog
    raft: Raft
    waiting: list[Message] = field(default_factory=list)
    seen: str = ""


class Group:
    """The replicas of a scenario; every command returns lines of output through `say`."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.down: dict[str, Member] = {}
        self.initial: dict[str, Membership] = {}
        self.cut_links: set[tuple[str, str]] = set()
        self.travelling: list[Message] = []
        self.now = 0.0
        self.loud = True
        self.output: list[str] = []
        self.settings: dict[str, int] = {}

    def command(self, line: str) -> list[str]:
        """Carry out one command line; its output."""
        name, *arguments = line.split()
        action: Callable[..., None] = getattr(self, f"do_{name}")
        self.output = []
        try:
            action(*arguments)
        except RaftError as error:
            self.output.append(f"{type(error).__name__}: {error}")
        for member in list(self.members.values()):
            self.turn(member)
        return self.output or ["ok"]

    def say(self, text: str) -> None:
        self.output.append(text)

    # The driver

    def start(self, name: str, disk: MemoryLog) -> None:
        log = disk.copy()
        spread = {"a": 0.0, "b": 0.4, "c": 0.8, "d": 0.2, "e": 0.6}[name]
        raft = Raft(RaftConfig(name, **self.settings), log, self.initial[name], self.now, lambda: spread)
        self.members[name] = Member(name, log, disk, raft)

    def turn(self, member: Member) -> None:
        while member.raft.has_ready():
            ready = member.raft.ready()
            member.log.stage(ready)
            self.travelling += ready.messages
            member.waiting += ready.messages_after_sync
            if ready.snapshot is not None:
                self.say(f"{member.name} restores the snapshot at {ready.snapshot.index}")
            if ready.committed:
                applied = " ".join(entry.data.decode() or "-" for entry in ready.committed if not entry.kind)
                first, last = ready.committed[0].index, ready.committed[-1].index
                self.say(f"{member.name} applies {first}..{last}: {applied}")
            for read in ready.reads:
                self.say(f"{member.name} may answer {read.context.decode()} at {read.index}")
        self.report(member)

    def report(self, member: Member) -> None:
        raft = member.raft
        text = f"{raft.role.value} in term {raft.term}"
        if raft.role.value == "follower":
            text += f" of {raft.leader or 'nobody'}"
        if text != member.seen:
            member.seen = text
            self.say(f"{member.name} is {text}")

    def sync(self, member: Member) -> None:
        member.disk = member.log.copy()
        self.travelling += member.waiting
        member.waiting = []
        last = member.log.last_index()
        if last:
            member.raft.persisted(last, member.log.term(last), self.now)
        self.turn(member)

    def carry(self) -> bool:
        """One round: all disks sync, then all messages that travel arrive. False if nothing happened."""
        for member in list(self.members.values()):
            self.sync(member)
        batch, self.travelling = self.travelling, []
        for message in batch:
            lost = (message.sender, message.to) in self.cut_links or message.to not in self.members
            if self.loud:
                kind = f"{type(message).__name__} term {message.term}"
                arrow = "-x" if lost else "->"
                self.say(f"  {message.sender} {arrow} {message.to} {kind} {details(message)}".rstrip())
            if isinstance(message, SnapshotRequest) and message.sender in self.members:
                self.members[message.sender].raft.report_snapshot(message.to, not lost, self.now)
            if not lost:
                target = self.members[message.to]
                target.raft.step(message, self.now)
                self.turn(target)
        return bool(batch)

    # Commands

    def do_nodes(self, voters: str, others: str = "-", *settings: str) -> None:
        """nodes VOTERS [OTHERS [SETTING=NUMBER…]]: start replicas; the others belong to no group yet."""
        self.settings = {key: int(value) for key, value in (setting.split("=") for setting in settings)}
        others = others.strip("-")
        for name in voters + others:
            self.initial[name] = Membership(frozenset(voters)) if name in voters else Membership()
            self.start(name, MemoryLog())

    def do_deliver(self) -> None:
        """deliver: sync and carry messages, in rounds, until there are none."""
        rounds = 0
        while self.carry():
            rounds += 1
            assert rounds < 60, "messages go round for ever"

    def do_round(self, count: str = "1") -> None:
        """round [COUNT]: sync all disks, then carry the messages that travel, but not their answers."""
        for _ in range(int(count)):
            self.carry()

    def do_run(self, seconds: str) -> None:
        """run SECONDS: let time pass, without showing messages."""
        self.loud = False
        end = self.now + float(seconds)
        while self.now < end - 1e-9:
            self.now = round(self.now + 0.01, 6)
            for member in list(self.members.values()):
                if member.raft.next_deadline() <= self.now:
                    member.raft.tick(self.now)
                    self.turn(member)
            self.do_deliver()
        self.loud = True

    def do_campaign(self, node: str) -> None:
        """campaign NODE"""
        self.members[node].raft.campaign(self.now)

    def do_propose(self, node: str, *texts: str) -> None:
        """propose NODE TEXT…"""
        for text in texts:
            self.say(f"entry {self.members[node].raft.propose(text.encode(), self.now)}")

    def do_read(self, node: str, context: str) -> None:
        """read NODE CONTEXT"""
        self.members[node].raft.read_index(context.encode(), self.now)

    def do_transfer(self, node: str, to: str) -> None:
        """transfer NODE TO"""
        self.members[node].raft.transfer_leadership(to, self.now)

    def do_change(self, node: str, *parts: str) -> None:
        """change NODE voters=… learners=… removed=…"""
        wanted = {key: frozenset(names) for key, names in (part.split("=") for part in parts)}
        self.say(f"entry {self.members[node].raft.propose_membership(MembershipChange(**wanted), self.now)}")

    def do_cut(self, one: str, other: str) -> None:
        """cut NODES NODES: no message passes between them any more."""
        for a in one:
            for b in other:
                self.cut_links |= {(a, b), (b, a)}

    def do_heal(self) -> None:
        """heal: all links work."""
        self.cut_links.clear()

    def do_suspect(self, nodes: str, lost: str) -> None:
        """suspect NODES LOST: their connections to LOST broke."""
        for node in nodes:
            self.members[node].raft.peer_lost(lost, self.now)

    def do_crash(self, nodes: str) -> None:
        """crash NODES: they lose what is not on disk."""
        for node in nodes:
            self.down[node] = self.members.pop(node)

    def do_restart(self, nodes: str) -> None:
        """restart NODES, with what their disks hold."""
        for node in nodes:
            self.start(node, self.down.pop(node).disk)

    def do_sync(self, nodes: str) -> None:
        """sync NODES: what they staged is durable; what waited for that travels."""
        for node in nodes:
            self.sync(self.members[node])

    def do_drop(self) -> None:
        """drop: all messages that travel are lost."""
        self.say(f"{len(self.travelling)} messages")
        self.travelling = []

    def do_compact(self, node: str) -> None:
        """compact NODE: snapshot at what it has applied."""
        member = self.members[node]
        index = member.raft.applied_index
        member.log.compact(index, member.raft.membership_at(index), b"state")
        self.say(f"log begins at {member.log.first_index()}")

    def do_show(self) -> None:
        """show: the state of each replica; its log is what follows its snapshot, as terms."""
        for name in sorted(self.members):
            raft, log = self.members[name].raft, self.members[name].log
            kept = log.entries(log.first_index(), log.last_index() + 1, 1 << 30)
            terms = " ".join(str(entry.term) for entry in kept)
            self.say(
                f"{name} {raft.role.value:13} term {raft.term} commit {raft.commit_index} "
                f"members {members_text(raft.membership) or '-'} log {log.first_index()}: {terms}".rstrip()
            )


def replay(text: str) -> str:
    """The scenario with the output that its commands have now."""
    group = Group()
    lines: list[str] = []
    expected_output = False
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *group.command(line[2:])]
            expected_output = True
        elif not line or line.startswith("#"):
            lines.append(line)
            expected_output = False
        elif not expected_output:
            raise ValueError(f"neither a command nor its output: {line}")
    return "\n".join(lines) + "\n"

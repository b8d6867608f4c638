"""Carries out requests to the node's management (`node.wire.amqp10.management`), with the paths, methods and
status codes of RabbitMQ 4.

    PUT GET DELETE   /queues/QUEUE              declare, describe and delete a queue
    DELETE           /queues/QUEUE/messages     purge a queue
    PUT DELETE       /exchanges/EXCHANGE        declare and delete an exchange
    POST             /bindings                  bind a queue or an exchange to an exchange
    GET              /bindings?src=EXCHANGE&dstq=QUEUE&key=KEY
    DELETE           /bindings/src=EXCHANGE;dstq=QUEUE;key=KEY;args=
    GET              /views/VIEW                read a view over a queue, as the HTTP API does
    PUT              /auth/tokens               renew the access token of the connection

Names are percent-encoded. A binding to an exchange has `dste` for `dstq`. The requests of a link are carried
out one after the other, with the rights of the commands that they stand for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote

from node.refusal import (
    Refusal,
)
from node.routing.matching import Binding, Destination, DestinationKind
from node.session.command_limits import CommandLimitError, check_command
from node.session.commands import (
    Bind,
    BindingsFound,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DescribeQueue,
    ListBindings,
    PurgeQueue,
    QueueDescribed,
    QueueFound,
    ReadView,
    Removed,
    Result,
    Unbind,
    ViewRead,
)
from node.session.core import MachineSession, SessionCore
from node.session.ports import Authenticated, Identity, QueueDeclaration
from node.session.statuses import status_of
from node.session.view_port import followed
from node.wire.amqp10.argument_values import ArgumentError, amqp_map, field_table, text_of
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.effects import RequestEffect
from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.links import IncomingLink
from node.wire.amqp10.management import ManagementRequest, RequestError, request_in, response
from node.wire.amqp10.values import AmqpValue, UInt, ULong

OK, CREATED, DONE, BAD, FORBIDDEN = 200, 201, 204, 400, 403

TOKEN_REFUSED: Final = "the token is refused, and the one before counts on; the node's log has the reason"

QUEUE_FIELDS: Final = frozenset({"durable", "exclusive", "auto_delete", "arguments"})
EXCHANGE_FIELDS: Final = frozenset({"type", "durable", "auto_delete", "internal", "arguments"})
BINDING_FIELDS: Final = frozenset(
    {
        "source",
        "destination_queue",
        "destination_exchange",
        "binding_key",
        "arguments",
    }
)

Response = tuple[int, AmqpValue]
"""The status, and the body."""

Responding = Callable[[Result], Response]
"""Makes the response to a command's result."""


RenewToken = Callable[[str, Authenticated], None]
"""Checks a new token of the client, and lets it count from then on."""


class Management:
    """The management of one connection."""

    def __init__(
        self, session: MachineSession, core: SessionCore, connection: Connection, renew: RenewToken
    ) -> None:
        self._session, self._core, self._connection, self._renew = session, core, connection, renew
        self._waiting: dict[IncomingLink, deque[ManagementRequest]] = {}
        """The requests of each link that have no response; the first of them is being carried out."""

    def request(self, effect: RequestEffect) -> None:
        """Take a message to the management."""
        link = effect.link
        try:
            request = request_in(effect.octets)
        except SectionError as error:
            self._connection.sessions.bad_request(link, error)
            return
        waiting = self._waiting.setdefault(link, deque())
        waiting.append(request)
        if len(waiting) == 1:
            self._begin(link, request)

    def _begin(self, link: IncomingLink, request: ManagementRequest) -> None:
        try:
            handler, parameters = routed(request)
            handler(self, link, parameters, request.body)
        except RequestError as error:
            self._respond(link, (error.status, str(error)))

    def _respond(self, link: IncomingLink, told: Response) -> None:
        waiting = self._waiting[link]
        request = waiting.popleft()
        self._connection.sessions.respond(link, response(request.message_id, *told))
        if waiting:
            self._begin(link, waiting[0])
        else:
            del self._waiting[link]

    def _do(self, link: IncomingLink, command: Command, answer: Responding) -> None:
        """Carry out a command, and respond. Raises RequestError."""
        _check(command)
        self._then(link, command, partial(self._tell, link, answer))

    def _tell(self, link: IncomingLink, answer: Responding, result: Result) -> None:
        self._respond(link, answer(result))

    def _then(self, link: IncomingLink, command: Command, go_on: Callable[[Result], None]) -> None:
        """Carry out a command, and go on with its result. A refusal is the response."""
        self._core.carry_out(link.session, command, partial(self._answered, link, go_on))

    def _answered(
        self, link: IncomingLink, go_on: Callable[[Result], None], result: Result | Refusal
    ) -> None:
        with self._session:
            if isinstance(result, Refusal):
                self._respond(link, _refused(result))
            else:
                go_on(result)
            self._session.answered()

    # -- queues ---------------------------------------------------------------------------------

    def put_queue(self, link: IncomingLink, parameters: dict[str, str], body: AmqpValue) -> None:
        """Declare a queue: 201 for a new one, 200 for one that is there, 409 for another of its name."""
        fields = _fields(body, QUEUE_FIELDS)
        declaration = QueueDeclaration(
            parameters["queue"],
            _flag(fields, "durable", True),
            _flag(fields, "exclusive", False),
            _flag(fields, "auto_delete", False),
            _table(fields, "arguments"),
        )
        declare = DeclareQueue(declaration)
        _check(declare)
        self._then(link, declare, partial(self._describe, link, declaration.name))

    def _describe(self, link: IncomingLink, name: str, declared: Result) -> None:
        status = CREATED if isinstance(declared, QueueFound) and declared.created else OK
        self._then(
            link,
            DescribeQueue(name),
            partial(self._tell, link, partial(_shown_queue, self._core.vhost, status)),
        )

    def get_queue(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """Describe a queue."""
        self._do(link, DescribeQueue(parameters["queue"]), partial(_shown_queue, self._core.vhost, OK))

    def delete_queue(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """Delete a queue, with its messages."""
        self._do(link, DeleteQueue(parameters["queue"]), _counted)

    def purge_queue(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """Remove the messages that no consumer has."""
        self._do(link, PurgeQueue(parameters["queue"]), _counted)

    # -- exchanges ------------------------------------------------------------------------------

    def put_exchange(self, link: IncomingLink, parameters: dict[str, str], body: AmqpValue) -> None:
        """Declare an exchange."""
        fields = _fields(body, EXCHANGE_FIELDS)
        command = DeclareExchange(
            parameters["exchange"],
            _text(fields, "type", "direct"),
            _flag(fields, "durable", True),
            _flag(fields, "auto_delete", False),
            _flag(fields, "internal", False),
            _table(fields, "arguments"),
        )
        self._do(link, command, _done)

    def delete_exchange(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """Delete an exchange."""
        self._do(link, DeleteExchange(parameters["exchange"]), _done)

    # -- bindings -------------------------------------------------------------------------------

    def post_binding(self, link: IncomingLink, _: dict[str, str], body: AmqpValue) -> None:
        """Bind a queue or an exchange. Raises RequestError."""
        fields = _fields(body, BINDING_FIELDS)
        names = {kind: _text(fields, f"destination_{kind.value}", "") for kind in DestinationKind}
        kinds = [kind for kind, name in names.items() if name]
        if len(kinds) != 1:
            raise RequestError(BAD, "a binding has either a destination_queue or a destination_exchange")
        source, key = _text(fields, "source", ""), _text(fields, "binding_key", "")
        destination = Destination(kinds[0], names[kinds[0]])
        self._do(link, Bind(source, destination, key, _table(fields, "arguments")), _done)

    def get_bindings(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """List the bindings between two ends, all or those with a key."""
        source, destination = _ends(parameters)
        listed = partial(_shown_bindings, parameters.get("key"))
        self._do(link, ListBindings(source, destination), listed)

    def delete_binding(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """Remove a binding without arguments, or the one whose arguments have the hash in `args`."""
        source, destination = _ends(parameters)
        key, args = parameters.get("key", ""), parameters.get("args", "")
        if not args:
            self._do(link, Unbind(source, destination, key), _done)
            return
        listing = ListBindings(source, destination)
        _check(listing)
        self._then(link, listing, partial(self._unbind, link, key, args))

    def _unbind(self, link: IncomingLink, key: str, args: str, result: Result) -> None:
        assert isinstance(result, BindingsFound)
        for binding, arguments in result.bindings:
            if binding.key == key and arguments_hash(binding) == args:
                unbind = Unbind(binding.source, binding.destination, key, dict(arguments))
                self._then(link, unbind, partial(self._tell, link, _done))
                return
        self._respond(link, (DONE, None))

    # -- views ----------------------------------------------------------------------------------

    def get_view(self, link: IncomingLink, parameters: dict[str, str], _: AmqpValue) -> None:
        """Read the rows of a view. Raises RequestError."""
        try:
            known, wait_ms = followed(parameters.get("after", ""), parameters.get("wait", ""))
        except ValueError as error:
            raise RequestError(BAD, f"after is no version, or wait no number of seconds: {error}") from None
        self._do(link, ReadView(parameters["view"], known, wait_ms), _shown_view)

    # -- tokens ---------------------------------------------------------------------------------

    def put_token(self, link: IncomingLink, _: dict[str, str], body: AmqpValue) -> None:
        """Renew the token of the connection: 204, or 403 for one that is refused. Raises RequestError."""
        if not isinstance(body, bytes):
            raise RequestError(BAD, "the body is no binary with a token")

        def renewed(identity: Identity | None, reason: str) -> None:
            with self._session:
                if identity is None:
                    self._respond(link, (FORBIDDEN, TOKEN_REFUSED))
                else:
                    self._respond(link, (DONE, None))
                self._session.answered()

        self._renew(body.decode("utf-8", "surrogateescape"), renewed)


RequestHandler = Callable[[Management, IncomingLink, dict[str, str], AmqpValue], None]

ROUTES: Final[dict[tuple[str, ...], dict[str, RequestHandler]]] = {
    ("queues", "{queue}"): {
        "PUT": Management.put_queue,
        "GET": Management.get_queue,
        "DELETE": Management.delete_queue,
    },
    ("queues", "{queue}", "messages"): {"DELETE": Management.purge_queue},
    ("exchanges", "{exchange}"): {"PUT": Management.put_exchange, "DELETE": Management.delete_exchange},
    ("bindings",): {"POST": Management.post_binding, "GET": Management.get_bindings},
    ("bindings", "{binding}"): {"DELETE": Management.delete_binding},
    ("views", "{view}"): {"GET": Management.get_view},
    ("auth", "tokens"): {"PUT": Management.put_token},
}
"""The handlers by the segments of the path and the method."""


def routed(request: ManagementRequest) -> tuple[RequestHandler, dict[str, str]]:
    """The handler of a request, and the parameters in its path. Raises RequestError."""
    path, _, query = request.path.partition("?")
    segments = path.removeprefix("/").split("/")
    for pattern, methods in ROUTES.items():
        parameters = _matched(pattern, segments)
        if parameters is not None:
            handler = methods.get(request.method)
            if handler is None:
                raise RequestError(405, f"{request.method} is no method of {path}")
            return handler, parameters | dict(parse_qsl(query, keep_blank_values=True))
    raise RequestError(404, f"there is no path {path}")


def _matched(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    """The parameters in the segments of a path; None where the pattern does not fit. Raises RequestError."""
    if len(pattern) != len(segments):
        return None
    parameters: dict[str, str] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if expected == "{binding}":
            pairs = [part.partition("=") for part in segment.split(";")]
            parameters |= {name: _decoded(value) for name, _, value in pairs}
        elif expected.startswith("{"):
            parameters[expected.strip("{}")] = _decoded(segment)
        elif expected != segment:
            return None
    return parameters


def _decoded(segment: str) -> str:
    """Raises RequestError."""
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise RequestError(BAD, f"{segment!r} is no percent-encoded UTF-8") from None


# -- fields of bodies -----------------------------------------------------------------------------


def _fields(body: AmqpValue, known: frozenset[str]) -> dict[str, AmqpValue]:
    """The fields of a body, none for null. Raises RequestError, also for a field that is not `known`."""
    if body is None:
        return {}
    if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
        raise RequestError(BAD, "the body is no map with texts as keys")
    for name in body:
        if name not in known:
            raise RequestError(BAD, f"{name!r} is none of the fields {', '.join(sorted(known))}")
    return {str(name): value for name, value in body.items()}


def _flag(fields: dict[str, AmqpValue], name: str, default: bool) -> bool:
    """Raises RequestError."""
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise RequestError(BAD, f"{name} is no boolean")
    return value


def _text(fields: dict[str, AmqpValue], name: str, default: str) -> str:
    """Raises RequestError."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise RequestError(BAD, f"{name} is no string")
    return str(value)


def _table(fields: dict[str, AmqpValue], name: str) -> dict[str, Any]:
    """Raises RequestError."""
    value = fields.get(name)
    if value is None:
        return {}
    try:
        return field_table(value)
    except ArgumentError as error:
        raise RequestError(BAD, f"{name}: {error}") from None


def _check(command: Command) -> None:
    """Raises RequestError."""
    try:
        check_command(command)
    except CommandLimitError as error:
        raise RequestError(BAD, str(error)) from None


def _ends(parameters: dict[str, str]) -> tuple[str, Destination]:
    """The source and the destination of a binding. Raises RequestError."""
    source, queue, exchange = (parameters.get(name, "") for name in ("src", "dstq", "dste"))
    if not source or bool(queue) is bool(exchange):
        raise RequestError(BAD, "a binding has a source (src), and a queue (dstq) or an exchange (dste)")
    kind = DestinationKind.QUEUE if queue else DestinationKind.EXCHANGE
    return source, Destination(kind, queue or exchange)


# -- responses ------------------------------------------------------------------------------------


def _refused(refusal: Refusal) -> Response:
    """The response to a refusal of the broker."""
    status = status_of(refusal, BAD)
    return status, text_of(str(refusal))


def _done(_: Result) -> Response:
    """The response to a command without a result."""
    return DONE, None


def _counted(result: Result) -> Response:
    """The response with the number of messages that are removed."""
    return OK, {"message_count": ULong(result.count if isinstance(result, Removed) else 0)}


def _shown_queue(vhost: str, status: int, result: Result) -> Response:
    """The response with the description of a queue."""
    assert isinstance(result, QueueDescribed)
    queue = result.queue
    return status, {
        "name": text_of(queue.name),
        "vhost": text_of(vhost),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "type": queue.kind,
        "arguments": amqp_map(queue.arguments),
        "leader": queue.leader,
        "replicas": list(queue.replicas),
        "message_count": ULong(result.ready),
        "consumer_count": UInt(result.consumers),
    }


def _shown_view(result: Result) -> Response:
    """The response with the rows of a view."""
    assert isinstance(result, ViewRead)
    read = result.found
    return OK, {
        "version": str(read.version),
        "behind": ULong(read.behind),
        "complete": read.complete,
        "at_once": read.at_once,
        "rows": [amqp_map(dict(zip(read.fields, row, strict=True))) for row in read.rows],
    }


def _shown_bindings(key: str | None, result: Result) -> Response:
    """The response with bindings; `key`: those with this key alone."""
    assert isinstance(result, BindingsFound)
    found = [one for one in result.bindings if key is None or one[0].key == key]
    return OK, [_shown_binding(binding, amqp_map(arguments)) for binding, arguments in found]


def _shown_binding(binding: Binding, arguments: dict[str, Any]) -> AmqpValue:
    kind, name = binding.destination
    parameter = "dstq" if kind is DestinationKind.QUEUE else "dste"
    parts = {"src": binding.source, parameter: name, "key": binding.key, "args": arguments_hash(binding)}
    segments = [f"{part}={quote(value, safe='', errors='surrogateescape')}" for part, value in parts.items()]
    return {
        "source": text_of(binding.source),
        f"destination_{kind.value}": text_of(name),
        "binding_key": text_of(binding.key),
        "arguments": arguments,
        "location": "/bindings/" + ";".join(segments),
    }


def arguments_hash(binding: Binding) -> str:
    """A hash of a binding's arguments, for the binding's location; empty without arguments."""
    if not binding.arguments:
        return ""
    return blake2b(repr(binding.arguments).encode(), digest_size=8).hexdigest()

"""Questions between nodes for HTTP clients and metrics: a name, an argument, one answer.

The messages are those of `cluster.peers.inquiry_messages`. No decision of the broker depends on them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from cluster.peers.inquiry_messages import InquiryAnswer, InquiryQuestion, decode_inquiry
from replication.repair import Send

ANSWER_TIMEOUT_S: Final = 1.0
"""Seconds that another node may take to answer; after that it counts as unreachable."""

Answerer = Callable[[Any], Any]
"""Takes the argument; returns the answer, or an awaitable of the answer."""


class Inquiry:
    """This node's questions to the other nodes, and its answers to theirs."""

    def __init__(
        self,
        node: str,
        send: Send,
        reachable: Callable[[], Iterable[str]],
        failed: Callable[[Exception, str], None],
    ) -> None:
        """`reachable` gives the other nodes that this node has a connection to.

        `failed` takes an answerer's exception and the name of its question; the asking node gets no answer.
        """
        self._node = node
        self._send = send
        self._reachable = reachable
        self._answerers: dict[str, Answerer] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._last_question = 0
        self._answering: set[asyncio.Task[None]] = set()
        self._failed = failed

    def answer(self, name: str, answerer: Answerer) -> None:
        """Answer questions of this name with `answerer(argument)`, which returns plain values."""
        self._answerers[name] = answerer

    async def ask(self, node: str, name: str, argument: Any = None) -> Any:
        """One node's answer, this one's included; None when it does not come in time."""
        if node == self._node:
            value = self._answerers[name](argument)
            return await value if inspect.isawaitable(value) else value
        self._last_question += 1
        question = self._last_question
        answer = self._asked[question] = asyncio.get_running_loop().create_future()
        self._send(node, InquiryQuestion(question, name, argument).encode())
        try:
            return await asyncio.wait_for(answer, ANSWER_TIMEOUT_S)
        except TimeoutError:
            return None
        finally:
            del self._asked[question]

    async def ask_all(self, name: str, argument: Any = None) -> dict[str, Any]:
        """The answers of this node and of all others that gave one in time, by node."""
        nodes = [self._node, *self._reachable()]
        answers = await asyncio.gather(*(self.ask(node, name, argument) for node in nodes))
        return {node: one for node, one in zip(nodes, answers, strict=True) if one is not None}

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """A question or an answer of another node. Raises MessageError."""
        message = decode_inquiry(parts)
        if isinstance(message, InquiryQuestion):
            self._answer(peer, message.number, message.name, message.argument)
        elif message is not None:
            future = self._asked.get(message.number)
            if future is not None and not future.done():
                future.set_result(message.value)

    def _answer(self, peer: str, question: int, name: str, argument: Any) -> None:
        answerer = self._answerers.get(name)
        try:
            answer = None if answerer is None else answerer(argument)
        except Exception as error:
            self._failed_to(peer, question, name, error)
            return
        if inspect.isawaitable(answer):
            task = asyncio.ensure_future(self._tell_later(peer, question, name, answer))
            self._answering.add(task)
            task.add_done_callback(self._answered)
        else:
            self._tell(peer, question, answer)

    async def _tell_later(self, peer: str, question: int, name: str, answer: Awaitable[Any]) -> None:
        try:
            value = await answer
        except Exception as error:
            self._failed_to(peer, question, name, error)
        else:
            self._tell(peer, question, value)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """Raise the task's exception on the event loop at once: no code awaits the task."""
        self._answering.discard(task)
        if not task.cancelled():
            task.result()

    def _failed_to(self, peer: str, question: int, name: str, error: Exception) -> None:
        self._failed(error, name)
        self._tell(peer, question, None)

    def _tell(self, peer: str, question: int, answer: Any) -> None:
        self._send(peer, InquiryAnswer(question, answer).encode())

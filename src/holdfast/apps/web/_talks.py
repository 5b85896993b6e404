"""Talking on sessions: answers run beside the pages, and go on when a page is left.

What is said is recorded piece by piece, so pages see it as they see any session that is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.agent import Agent, Kit, PermissionRequest
    from holdfast.library import Holdfast
    from holdfast.session import Session

ANSWERS = ("once", "session", "always", "no")
_ARGUMENT_CHARS_MAX = 4_000
_REST_S = 60.0  # so long after an answer the session is given back, for others to write


@dataclass(frozen=True)
class Question:
    """A tool that waits for someone to allow it."""

    id: str
    tool: str
    description: str
    arguments: str
    answer: asyncio.Future[str]


@dataclass
class _Talk:
    session: Session | None = None
    agent: Agent | None = None
    task: asyncio.Task[None] | None = None
    trouble: str = ""
    resting: asyncio.TimerHandle | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    questions: dict[str, Question] = field(default_factory=dict)


class Talks:
    """The agents of this app, by session; everything but ``is_running`` is for the server's loop.

    ``make_kit`` is called once, with the first message.
    """

    def __init__(self, hf: Holdfast, make_kit: Callable[[], Kit]) -> None:
        self._hf = hf
        self._make_kit = make_kit
        self._kit: Kit | None = None
        self._talks: dict[str, _Talk] = {}
        self._root = os.getcwd()

    def is_running(self, session_id: str) -> bool:
        """Whether an answer of that session is under way."""
        talk = self._talks.get(session_id)
        return talk is not None and talk.task is not None and not talk.task.done()

    def questions(self, session_id: str) -> Iterable[Question]:
        """What waits for someone there, in the order in which it was asked."""
        talk = self._talks.get(session_id)
        return list(talk.questions.values()) if talk else []

    def trouble(self, session_id: str) -> str:
        """Why the last answer failed, if it did."""
        talk = self._talks.get(session_id)
        return talk.trouble if talk else ""

    async def begin(self, text: str) -> str:
        """A new session with a first message; its id. Raises as ``say``."""
        kit = await self._ready()
        session = await asyncio.to_thread(kit.open_session, self._hf, None)
        self._talks[session.id] = _Talk(session=session)
        # It must be there before anyone looks at it.
        await asyncio.to_thread(session.append, "metadata", {"begun_by": "web"})
        await self.say(session.id, text)
        return session.id

    async def say(self, session_id: str, text: str) -> None:
        """Give a message to the agent of a session. Raises UsageError, NotFound, Locked."""
        if not text.strip():
            raise UsageError("the message is empty", remedy="Write something first.")
        kit = await self._ready()
        talk = self._talks.setdefault(session_id, _Talk())
        async with talk.opening:
            if self.is_running(session_id):
                raise UsageError("an answer is under way", remedy="Stop it first, or wait for it.")
            talk.trouble = ""
            if talk.session is None:
                talk.session = await asyncio.to_thread(kit.open_session, self._hf, session_id)
            if talk.agent is None:
                talk.agent = await asyncio.to_thread(self._agent, kit, talk.session)
            talk.task = asyncio.get_running_loop().create_task(self._answer(talk, text))

    def stop(self, session_id: str) -> bool:
        """End an answer; what was said is kept. False if there is none."""
        talk = self._talks.get(session_id)
        if talk is None or talk.task is None or talk.task.done():
            return False
        talk.task.cancel()
        return True

    def decide(self, session_id: str, question_id: str, answer: str) -> bool:
        """Let a tool run, or not; whether it was waiting for that."""
        talk = self._talks.get(session_id)
        question = talk.questions.pop(question_id, None) if talk else None
        if question is None or question.answer.done():
            return False
        question.answer.set_result(answer if answer in ANSWERS else "no")
        return True

    async def release(self, session_id: str) -> None:
        """Give a session back, so that it can be deleted or moved. Raises UsageError while busy."""
        if self.is_running(session_id):
            raise UsageError("an answer is under way", remedy="Stop it first, or wait for it.")
        talk = self._talks.pop(session_id, None)
        if talk is not None:
            await _close(talk)

    async def close(self) -> None:
        """Stop every answer and give every session back."""
        tasks = [talk.task for talk in self._talks.values() if talk.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for talk in self._talks.values():
            with contextlib.suppress(HoldfastError):  # nobody is there to be told
                await _close(talk)
        self._talks.clear()

    async def _ready(self) -> Kit:
        if self._kit is None:
            self._kit = await asyncio.to_thread(_installed, self._make_kit)
        return self._kit

    def _agent(self, kit: Kit, session: Session) -> Agent:
        from holdfast.agent import builtin_tools

        return kit.agent(self._hf, session, lambda: builtin_tools(self._root), self._permit)

    async def _answer(self, talk: _Talk, text: str) -> None:
        assert talk.agent is not None
        assert talk.session is not None
        try:
            async with talk.agent.run_stream(text, session=talk.session) as stream:
                async for _ in stream:
                    pass  # it is recorded as it comes, and pages read the record
            await talk.session.aflush()
        except asyncio.CancelledError:
            talk.trouble = ""
        except HoldfastError as error:
            talk.trouble = f"{error.message}. {error.remedy}"
        except Exception as error:  # noqa: BLE001 - told to the user, whatever a provider raises
            talk.trouble = str(error)[:500] or type(error).__name__
        finally:
            for question in talk.questions.values():
                question.answer.cancel()
            talk.questions.clear()
            self._rest(talk)

    def _rest(self, talk: _Talk) -> None:
        if talk.resting is not None:
            talk.resting.cancel()
        loop = asyncio.get_running_loop()
        talk.resting = loop.call_later(_REST_S, lambda: loop.create_task(_give_back(talk)))

    async def _permit(self, request: PermissionRequest) -> Any:
        talk = self._talks.get(request.session_id)
        if talk is None:
            return False
        arguments = "\n".join(f"{name} = {value!r}" for name, value in request.args.items())
        question = Question(
            secrets.token_hex(8),
            request.tool,
            request.description,
            arguments[:_ARGUMENT_CHARS_MAX],
            asyncio.get_running_loop().create_future(),
        )
        talk.questions[question.id] = question
        try:
            answer = await question.answer
        finally:
            talk.questions.pop(question.id, None)
        return answer if answer != "no" else False


def _installed(make_kit: Callable[[], Kit]) -> Kit:
    try:
        return make_kit()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[agent,local]'",
        ) from error


async def _give_back(talk: _Talk) -> None:
    """Close a session on which nothing was said for a while."""
    if talk.task is None or talk.task.done():
        with contextlib.suppress(HoldfastError):  # the next message tells it
            await _close(talk)


async def _close(talk: _Talk) -> None:
    async with talk.opening:
        if talk.resting is not None:
            talk.resting.cancel()
        agent, session = talk.agent, talk.session
        talk.agent = talk.session = None
        try:
            if agent is not None:
                await agent.aclose()
        finally:
            if session is not None:
                await session.aclose()

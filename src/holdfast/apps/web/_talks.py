"""Talking on sessions: answers run beside the pages, and go on when a page is left.

What is said is recorded piece by piece, so pages see it as they see any session that is written.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.agent import Host, HostedTurn, Question, Scope, needs_agent
from holdfast.errors import HoldfastError, UsageError
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.agent import Agent, Kit, PermissionRequest
    from holdfast.library import Holdfast

_REST_MS = 60_000  # so long after an answer the session is given back, for others to write

_SCOPES: dict[str, Scope] = {"once": "once", "session": "session", "always": "always"}


class Talks:
    """The agents of this app, by session; everything but ``is_running`` is for the server's loop.

    ``make_kit`` is called once, with the first message.
    """

    def __init__(self, hf: Holdfast, make_kit: Callable[[], Kit]) -> None:
        self._hf = hf
        self._make_kit = make_kit
        self._kit: Kit | None = None
        self._host: Host[str, Session] = Host(idle_ms=_REST_MS)
        self._newest: dict[str, HostedTurn] = {}
        self._root = os.getcwd()

    def is_running(self, session_id: str) -> bool:
        """Whether an answer of that session is under way."""
        return self._host.turn(session_id) is not None

    def questions(self, session_id: str) -> list[Question]:
        """What waits for someone there, in the order in which it was asked."""
        turn = self._host.turn(session_id)
        return [] if turn is None else list(turn.questions.values())

    def trouble(self, session_id: str) -> str:
        """Why the last answer failed, if it did."""
        turn = self._newest.get(session_id)
        if turn is None or turn.error is None:
            return ""
        if isinstance(turn.error, HoldfastError):
            return f"{turn.error.message}. {turn.error.remedy}"
        return str(turn.error)[:500] or type(turn.error).__name__

    async def begin(self, text: str) -> str:
        """A new session with a first message; its id. Raises as ``say``."""
        kit = await self._ready()
        session = await asyncio.to_thread(kit.open_session, self._hf, None)
        self._host.keep(session.id, session)
        # It must be there before anyone looks at it.
        await asyncio.to_thread(session.append, "metadata", {"begun_by": "web"})
        await self.say(session.id, text)
        return session.id

    async def say(self, session_id: str, text: str) -> None:
        """Give a message to the agent of a session. Raises UsageError, NotFound, Locked."""
        if not text.strip():
            raise UsageError("the message is empty", remedy="Write something first.")
        kit = await self._ready()
        self._check_rests(session_id)
        # Here and not in the turn: what cannot be opened is told to whoever sent the message.
        async with self._host.ause(
            session_id, partial(kit.open_session, self._hf, session_id)
        ) as session:
            agent = await asyncio.to_thread(self._agent, kit, session)
            self._newest[session_id] = self._host.begin(
                session_id, lambda turn: self._answer(turn, agent, session, text)
            )

    def stop(self, session_id: str) -> bool:
        """End an answer; what was said is kept. False if there is none."""
        turn = self._host.turn(session_id)
        if turn is None:
            return False
        turn.cancel()
        return True

    def decide(self, session_id: str, question_id: str, answer: str) -> bool:
        """Let a tool run, or not; whether it was waiting for that."""
        turn = self._host.turn(session_id)
        if turn is None:
            return False
        scope = _SCOPES.get(answer)
        return turn.answer(question_id, approved=scope is not None, scope=scope or "once")

    async def release(self, session_id: str) -> None:
        """Give a session back, so that it can be deleted or moved. Raises UsageError while busy."""
        self._check_rests(session_id)
        self._newest.pop(session_id, None)
        await asyncio.to_thread(self._host.let_go, session_id)

    async def close(self) -> None:
        """Put every answer off, to be gone on with later, and give every session back."""
        await self._host.put_off()
        await self._host.aclose()

    def _check_rests(self, session_id: str) -> None:
        if self.is_running(session_id):
            raise UsageError("an answer is under way", remedy="Stop it first, or wait for it.")

    async def _ready(self) -> Kit:
        if self._kit is None:
            with needs_agent():
                self._kit = await asyncio.to_thread(self._make_kit)
        return self._kit

    def _agent(self, kit: Kit, session: Session) -> Agent:
        from holdfast.agent import builtin_tools

        return kit.agent(self._hf, session, lambda: builtin_tools(self._root), self._permit)

    async def _answer(self, turn: HostedTurn, agent: Agent, session: Session, text: str) -> None:
        async with self._host.ause(session.id, lambda: session):
            # It is recorded as it comes, and pages read the record.
            await turn.stream(agent.run_stream(text, session=session), session)

    async def _permit(self, request: PermissionRequest) -> Any:
        turn = self._host.turn(request.session_id)
        # Not under the id of the call, which a model may give twice: an old page answers nothing.
        return turn is not None and await turn.ask(request, id=secrets.token_hex(8))

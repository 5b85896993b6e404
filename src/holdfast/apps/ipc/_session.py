"""The one session that a connection is about, and what can be done with it and the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from holdfast.agent import Kit
from holdfast.apps.ipc._messages import (
    LIMIT_MAX,
    Cancel,
    Initialize,
    Query,
    SessionCreate,
    SessionDelete,
    SessionExport,
    SessionList,
    SessionLoad,
    SessionSave,
    ToolApprove,
    busy,
    failure,
    session_info,
)
from holdfast.apps.talk.questions import Questions
from holdfast.errors import HoldfastError, NotFound, TooLarge, UsageError
from holdfast.library import Holdfast
from holdfast.model import VERSION, check_id
from holdfast.session import Session, uncancelled

if TYPE_CHECKING:
    from holdfast.agent import Agent, Decision, PermissionRequest

PROTOCOL = 1
EXPORT_CHARS_MAX = 32 * 1024 * 1024

Answer = dict[str, Any]
Say = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Tells the other side something that it did not ask for: the tag, and the fields."""


class Current:
    """What one connection asks for is done here, one query at a time.

    The session is opened for writing with the first query, and given back with the connection or
    with another session. ``load`` alone takes nothing from anybody.
    """

    def __init__(self, hf: Holdfast, kit: Kit, *, root: str | None = None) -> None:
        self._hf = hf
        self._kit = kit
        self._root = root or os.getcwd()
        self._id: str | None = None
        self._session: Session | None = None
        self._agent: Agent | None = None
        self._demo = False
        self._turn: asyncio.Task[Answer] | None = None
        self._questions = Questions()
        self._say: Say | None = None
        self._is_alone = False

    async def initialize(self, wish: Initialize) -> Answer:
        """Say who is here, and how it is meant."""
        self._demo = wish.demo_mode
        return {
            "protocol_version": PROTOCOL,
            "version": VERSION,
            "demo_mode": self._demo,
            "model": "none: demo mode" if self._demo else self._kit.about,
        }

    # -- sessions ----------------------------------------------------------------------------

    async def create(self, wish: SessionCreate) -> Answer:
        """Begin a session, on record at once, and make it the current one."""
        self._check_idle()
        session = await asyncio.to_thread(self._begin, wish.title)
        try:
            await self._leave()
        finally:
            self._id, self._session = session.id, session
        return {"session_id": session.id}

    async def save(self, _: SessionSave) -> Answer:
        """Put everything of the current session on the medium; whether that could be done."""
        try:
            if self._id is None:
                raise UsageError(
                    "there is no current session", remedy="Create one, load one, or say something."
                )
            if self._session is not None:
                await self._session.aflush()
            elif not await asyncio.to_thread(self._hf.exists, self._id):
                raise NotFound(f"session {self._id} is gone", session_id=self._id)
        except HoldfastError as error:
            return failure(error)
        return {"success": True}

    async def load(self, wish: SessionLoad) -> Answer:
        """Make a session the current one. Raises NotFound, and what its log says."""
        self._check_idle()
        found = await asyncio.to_thread(self._hf.info, check_id(wish.session_id))
        if found.session_id != self._id:
            await self._leave()
            self._id = found.session_id
        return {"session_id": found.session_id, "message_count": found.message_count}

    async def list(self, wish: SessionList) -> Answer:
        """The sessions, newest first; all of them without a limit."""
        if wish.limit is not None and not 0 <= wish.limit <= LIMIT_MAX:
            raise UsageError(f"a limit is a number of sessions, not {wish.limit}")
        limit = None if wish.limit is None else min(wish.limit, 2**31)
        page = await asyncio.to_thread(self._hf.list, limit)
        return {"sessions": [session_info(found) for found in page]}

    async def delete(self, wish: SessionDelete) -> Answer:
        """Put a session into the trash; whether that could be done."""
        try:
            check_id(wish.session_id)
            if wish.session_id == self._id:
                self._check_idle()
                await self._leave()
            await asyncio.to_thread(self._hf.delete, wish.session_id)
        except HoldfastError as error:
            return failure(error)
        return {"success": True}

    async def export(self, wish: SessionExport) -> Answer:
        """A session as a text. The current session stays the current one, whichever it is of."""
        from holdfast.formats import format_of

        if not format_of(wish.format).is_text:
            raise UsageError(
                f"the format {wish.format} is bytes, which no message can carry",
                remedy="Use markdown, json or jsonl, or `holdfast export`.",
            )
        wanted = self._id if wish.session_id is None else check_id(wish.session_id)
        if wanted is None:
            return {"content": ""}
        if self._session is not None:
            await self._session.aflush()
        content = await asyncio.to_thread(self._hf.export, wanted, wish.format)
        if len(content) > EXPORT_CHARS_MAX:
            raise TooLarge(
                f"the export has {len(content):,} characters, more than a message carries",
                remedy="Use `holdfast export`.",
            )
        return {"content": content}

    # -- turns -------------------------------------------------------------------------------

    async def query(self, wish: Query, say: Say) -> Answer:
        """Answer, word by word, and then as a whole. Raises what ends the turn."""
        self._check_idle()
        if not wish.query.strip():
            raise UsageError("the query is empty", remedy="Say something.")
        self._turn = asyncio.ensure_future(self._answer(wish.query, say))
        try:
            return await self._turn
        finally:
            self._turn = None

    async def cancel(self, _: Cancel) -> Answer:
        """Stop what is being answered; whether something was."""
        if self._turn is None:
            return failure(UsageError("nothing is being answered", remedy="Ask something first."))
        self._turn.cancel()
        return {"success": True}

    async def approve(self, wish: ToolApprove) -> Answer:
        """Let a tool run, or not; whether it was waiting for that."""
        if not self._questions.answer(wish.tool_id, approved=wish.approved, scope=wish.scope):
            missing = NotFound(
                f"no tool waits under the id {wish.tool_id[:128]!a}",
                remedy="Use the tool_id of tool_request_approval.",
            )
            return {"tool_id": wish.tool_id, **failure(missing)}
        return {"tool_id": wish.tool_id, "success": True}

    def deny_tools(self) -> None:
        """From now on nobody can approve a tool: what waits is refused, and what would wait."""
        self._is_alone = True
        self._questions.deny_all()

    async def close(self) -> None:
        """Stop what is under way, and give the session back."""
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait([self._turn])
        with contextlib.suppress(HoldfastError):  # nobody is there to be told
            await self._leave()

    # -- inside ------------------------------------------------------------------------------

    def _check_idle(self) -> None:
        if self._turn is not None:
            raise busy()

    def _begin(self, title: str | None) -> Session:
        session = self._kit.open_session(self._hf, None, title=title)
        try:
            # A session is on record with its first event; this one is to be found from now on.
            session.append("metadata", {"begun_by": "bridge"})
            session.barrier()
        except BaseException:
            session.close()
            raise
        return session

    async def _leave(self) -> None:
        """Give the current session back; there is none then."""
        agent, session = self._agent, self._session
        self._id = self._agent = self._session = None
        try:
            if agent is not None:
                await agent.aclose()
        finally:
            if session is not None:
                await session.aclose()

    async def _writable(self) -> Session:
        """The current session, opened for writing; a new one begins with what is said first."""
        if self._session is not None:
            return self._session
        return await uncancelled(self._open())  # or nobody would give it back

    async def _open(self) -> Session:
        opened = await asyncio.to_thread(self._kit.open_session, self._hf, self._id)
        self._session, self._id = opened, opened.id
        return opened

    async def _answer(self, text: str, say: Say) -> Answer:
        session = await self._writable()
        if self._demo:
            response = await self._demonstrate(session, text, say)
        else:
            response = await self._run(session, text, say)
        await session.aflush()
        return {"response": response, "session_id": session.id}

    async def _run(self, session: Session, text: str, say: Say) -> str:
        if self._agent is None:
            self._agent = await asyncio.to_thread(self._make_agent, session)
        self._say = say
        async with self._agent.run_stream(text, session=session) as stream:
            async for piece in stream:
                await say("stream_token", {"session_id": session.id, "content": piece})
        return stream.result.output

    def _make_agent(self, session: Session) -> Agent:
        try:
            from holdfast.agent import builtin_tools

            return self._kit.agent(
                self._hf, session, lambda: builtin_tools(self._root), self._permission
            )
        except ModuleNotFoundError as error:
            raise UsageError(
                f"this needs the package {error.name}, which is not installed",
                remedy="Install it with: pip install 'holdfast[agent,local]'",
            ) from error

    async def _demonstrate(self, session: Session, text: str, say: Say) -> str:
        """A turn without a model: what a front end sees and what is recorded are the same."""
        response = f"This is demo mode; no model was asked. You said: {text}"
        async with session.turn():
            session.user(text)
            for word in re.findall(r"\S+\s*|\s+", response):
                await say("stream_token", {"session_id": session.id, "content": word})
            session.assistant(response)
        return response

    async def _permission(self, request: PermissionRequest) -> Decision:
        from holdfast.agent import Decision

        say = self._say
        if say is None or self._is_alone:
            return Decision(allow=False, reason="nobody is there to be asked")
        return await self._questions.ask(request, lambda asked: say("tool_request_approval", asked))

"""The one session that a connection is about, and what can be done with it and the others."""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent import Host, HostedTurn, Kit
from holdfast.apps.ipc import messages
from holdfast.apps.ipc.messages import busy, failure
from holdfast.apps.render.questions import decided, person
from holdfast.errors import HoldfastError, NotFound, TooLarge, UsageError
from holdfast.library import Holdfast
from holdfast.library.answers import events as answers
from holdfast.library.answers.sessions import OpenQuestions
from holdfast.library.answers.turns import SessionMade, ToolSettled
from holdfast.model import VERSION, check_id
from holdfast.session import Session, uncancelled

if TYPE_CHECKING:
    from holdfast.agent import Agent

PROTOCOL: Literal[1] = 1
EXPORT_CHARS_MAX = 32 * 1024 * 1024
_HERE = "current"  # the one key of the host: a connection has one session, and one turn

Say = Callable[[str, Struct], Awaitable[None]]
"""Sends the other side an unrequested message: the tag, and the data."""


class Current:
    """The current session of one connection, with one query at a time.

    The session is opened for writing with the first query, and given back with the connection or
    with another session. ``load`` alone takes nothing from anybody.
    """

    def __init__(self, hf: Holdfast, kit: Kit, *, root: str | None = None) -> None:
        self._hf = hf
        self._kit = kit
        self._root = root or os.getcwd()
        self._id: str | None = None
        self._host: Host[str, Session] = Host(idle_ms=None)
        self._demo = False
        self._hold_s = math.inf

    async def initialize(self, wish: messages.Hello) -> Struct:
        """Say who is here, and how it is meant."""
        self._demo = wish.demo_mode
        return answers.Greeting(
            protocol_version=PROTOCOL,
            version=VERSION,
            demo_mode=self._demo,
            model="none: demo mode" if self._demo else self._kit.about,
        )

    # -- sessions ----------------------------------------------------------------------------
    async def create(self, wish: messages.SessionCreate) -> Struct:
        """Begin a session, on record at once, and make it the current one."""
        self._check_idle()
        session = await asyncio.to_thread(self._begin, wish.title)
        # The new session is on record: it becomes the current one whatever the old one does.
        try:
            await self._leave()
        finally:
            self._id = session.id
            self._host.keep(_HERE, session)
        return SessionMade(session_id=session.id)

    async def save(self, _: messages.SessionSave) -> Struct:
        """Put everything of the current session on the medium; whether that could be done."""
        try:
            if self._id is None:
                raise UsageError("there is no current session", remedy="Create one, load one, or say something.")
            if (session := self._host.get(_HERE)) is not None:
                await session.aflush()
            elif not await asyncio.to_thread(self._hf.exists, self._id):
                raise NotFound(f"session {self._id} is gone", session_id=self._id)
        except HoldfastError as error:
            return failure(error)
        return answers.Outcome(success=True)

    async def load(self, wish: messages.SessionLoad) -> Struct:
        """Make a session the current one. Raises NotFound, and what its log says."""
        self._check_idle()
        found = await asyncio.to_thread(self._hf.info, check_id(wish.session_id))
        # Loading the current session again must not close what is open.
        if found.session_id != self._id:
            await self._leave()
            self._id = found.session_id
        return answers.SessionLoaded(session_id=found.session_id, message_count=found.message_count)

    async def list(self, wish: messages.ListSessions) -> Struct:
        """Return the sessions, newest first; all of them without a limit."""
        if wish.limit is not None and not 0 <= wish.limit <= messages.LIMIT_MAX:
            raise UsageError(f"a limit is a number of sessions, not {wish.limit}")
        # No database accepts a larger limit, and there are never that many sessions.
        limit = None if wish.limit is None else min(wish.limit, 2**31)
        page = await asyncio.to_thread(self._hf.list, limit)
        return answers.SessionBriefs(sessions=[messages.session_info(found) for found in page])

    async def delete(self, wish: messages.SessionDelete) -> Struct:
        """Put a session into the trash; whether that could be done."""
        try:
            check_id(wish.session_id)
            if wish.session_id == self._id:
                self._check_idle()
                await self._leave()
            await asyncio.to_thread(self._hf.delete, wish.session_id)
        except HoldfastError as error:
            return failure(error)
        return answers.Outcome(success=True)

    async def export(self, wish: messages.SessionExport) -> Struct:
        """Return a session as a text. The current session stays the current one, whichever it is of."""
        from holdfast.formats import format_of

        if not format_of(wish.format).is_text:
            told = f"the format {wish.format} is bytes, which no message can carry"
            raise UsageError(told, remedy="Use markdown, json or jsonl, or `holdfast export`.")
        wanted = self._id if wish.session_id is None else check_id(wish.session_id)
        if wanted is None:
            return answers.ExportedText(content="")
        # The latest messages belong to the export.
        if (session := self._host.get(_HERE)) is not None:
            await session.aflush()
        content = await asyncio.to_thread(self._hf.export, wanted, wish.format)
        if len(content) > EXPORT_CHARS_MAX:
            told = f"the export has {len(content):,} characters, more than a message carries"
            raise TooLarge(told, remedy="Use `holdfast export`.")
        return answers.ExportedText(content=content)

    # -- the inbox, of all sessions ----------------------------------------------------------
    async def waiting(self, wish: messages.WaitingList) -> Struct:
        """List the open requests of sessions."""
        return OpenQuestions(waiting=await asyncio.to_thread(self._hf.waiting, wish.agent, wish.session_id))

    async def answer(self, wish: messages.WaitingAnswer) -> Struct:
        """Answer a question, durably. Raises NotFound, and UsageError for one that is answered or too late."""
        given = decided(wish.decision, wish.args, wish.result)
        return await self._give(wish.question, given, because=wish.because, scope=wish.scope)

    async def _give(self, question: str, given: Any, **said: Any) -> Struct:
        said |= {"via": "bridge", "by": person()}
        told = await asyncio.to_thread(lambda: self._hf.inbox.answer(question, given, **said))
        if (turn := self._host.turn(_HERE)) is not None:
            turn.news.set()
        return told

    # -- turns -------------------------------------------------------------------------------
    async def query(self, wish: messages.PromptMessage, say: Say) -> Struct:
        """Answer, word by word, and then as a whole. Raises what ends the turn."""
        if not wish.query.strip():
            raise UsageError("the query is empty", remedy="Say something.")
        return await self._turn(wish.query, say)

    async def resume(self, _: messages.Resume, say: Say) -> Struct:
        """Go on with the current session, and answer as ``query`` does."""
        if self._id is None:
            raise UsageError("there is no current session", remedy="Load the one to go on with.")
        if self._demo:
            raise UsageError("in demo mode no agent goes on", remedy="Initialize without it.")
        return await self._turn(None, say)

    async def _turn(self, text: str | None, say: Say) -> Struct:
        self._check_idle()
        turn = self._host.begin(_HERE, lambda turn: self._answer(turn, text))
        try:
            async for name, value in turn.listen():
                if name == "piece":
                    assert self._id is not None
                    await say("stream_token", answers.StreamToken(session_id=self._id, content=value))
                elif name == "question":
                    await say("tool_request_approval", value)
                elif name == "settled":
                    settled = {"session_id": value.session_id, "tool_id": value.tool_id, "question": value.question}
                    await say("tool_request_settled", ToolSettled(**settled))
        except BaseException:  # the client is gone
            await uncancelled(turn.stop())
            raise
        answer: Struct = await turn.finish()
        return answer

    async def cancel(self, _: messages.Cancel) -> Struct:
        """Stop what is being answered; whether something was."""
        turn = self._host.turn(_HERE)
        if turn is None:
            return failure(UsageError("nothing is being answered", remedy="Ask something first."))
        turn.cancel()
        return answers.Outcome(success=True)

    async def steer(self, wish: messages.Steer) -> Struct:
        """Let the agent that answers hear a word before its next step; whether there was one."""
        turn = self._host.turn(_HERE)
        if turn is None:
            return failure(UsageError("nothing is being answered", remedy="Ask it as a query."))
        await turn.steer(wish.text, interrupt=wish.interrupt)
        return answers.Outcome(success=True)

    async def approve(self, wish: messages.ToolApprove) -> Struct:
        """Let a tool run, or not, durably; whether it was waiting for that."""
        turn = self._host.turn(_HERE)
        asked = [] if turn is None else [one for one in turn.questions.values() if one.tool_id == wish.tool_id]
        try:
            if not asked:
                what = f"no tool waits under the id {wish.tool_id[:128]!a}"
                raise NotFound(what, remedy="Use the tool_id of tool_request_approval.")
            await self._give(asked[0].question, wish.approved, scope=wish.scope)
        except HoldfastError as error:
            return answers.ToolOutcome(tool_id=wish.tool_id, success=False, error=failure(error).error)
        return answers.ToolOutcome(tool_id=wish.tool_id, success=True)

    def hold_no_more(self) -> None:
        """Leave all present and future questions about tools to the inbox, as nobody can answer here any more."""
        self._hold_s = 0.0
        if (turn := self._host.turn(_HERE)) is not None:
            turn.let_go()

    async def close(self) -> None:
        """Stop what is under way, and give the session back."""
        await self._host.aclose()

    # -- inside ------------------------------------------------------------------------------
    def _check_idle(self) -> None:
        if self._host.turn(_HERE) is not None:
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
        self._id = None
        await asyncio.to_thread(self._host.let_go, _HERE)

    def _open(self) -> Session:
        """Return the current session, opened for writing; a new one begins with what is said first."""
        opened = self._kit.open_session(self._hf, self._id)
        self._id = opened.id
        return opened

    async def _answer(self, turn: HostedTurn, text: str | None) -> Struct:
        async with self._host.ause(_HERE, self._open) as session:
            if self._demo and text is not None:
                response = await self._demonstrate(turn, session, text)
                return answers.QueryAnswer(response=response, session_id=session.id)
            agent = await asyncio.to_thread(self._make_agent, session)
            stream = agent.run_stream(text, session=session)
            result = await turn.carry(agent, stream, session, hold_s=self._hold_s)
            open_ones = [replace(one, token=None) for one in result.waiting]
            return answers.QueryAnswer(
                response=result.output, session_id=session.id, limit=result.limit, waiting=open_ones
            )

    def _make_agent(self, session: Session) -> Agent:
        from holdfast.agent import builtin_tools

        return self._kit.agent(self._hf, session, lambda: builtin_tools(self._root), "suspend")

    async def _demonstrate(self, turn: HostedTurn, session: Session, text: str) -> str:
        """Return a turn without a model: what a front end sees and what is recorded are the same."""
        response = f"This is demo mode; no model was asked. You said: {text}"
        async with session.turn():
            session.user(text)
            for word in re.findall(r"\S+\s*|\s+", response):
                turn.tell("piece", word)
            session.assistant(response)
        await session.aflush()
        return response

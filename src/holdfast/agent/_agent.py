"""The agent: a model with tools and a context that lives in a session."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

from holdfast.agent._context import Suspend
from holdfast.agent._engine import Engine, LateModel, resolve_model
from holdfast.agent._interjections import Steering, Steerings
from holdfast.agent._kit import AgentHome
from holdfast.agent._limits import RunLimits
from holdfast.agent._loop import RunBounds
from holdfast.agent._mcp_servers import McpServers, servers_of
from holdfast.agent._options import (
    Features,
    PersistentSession,
    Strategy,
    check_library,
    check_lists,
    check_map,
    check_permission,
    check_texts,
    check_whole,
    made,
    settle_features,
    settle_persistence,
)
from holdfast.agent._output import output_of
from holdfast.agent._permissions import PermissionRequest
from holdfast.agent._result import RunResult, RunStream
from holdfast.agent._spec import SessionPlugins, Spec, read_custom, write_custom
from holdfast.agent._sync import sync_twin, twin
from holdfast.agent._tools import as_tools
from holdfast.agent._turn import AgentTurn, Prompt, check_answers, check_delegates, check_edits
from holdfast.errors import Locked, UsageError
from holdfast.library import Holdfast
from holdfast.library import open as open_library
from holdfast.model import Status, fit_id
from holdfast.session import Edited, Session, in_event_loop, in_thread
from holdfast.storage import Documents

DEFAULT_NAME = "agent"


class Agent:
    """A model, its tools and its context.

    Without persistence each run starts afresh and nothing touches the disk. With ``persistent_session`` the agent
    finds its current session again by its ``agent_id``, in this process or a later one. A session given to ``run`` is
    used as it is, whatever its store.
    """

    def __init__(
        self,
        model: Any,
        *,
        agent_id: str | None = None,
        name: str | None = None,
        description: str = "",
        persistent_session: bool | PersistentSession | Mapping[str, Any] = False,
        session_id: str | None = None,
        tools: Iterable[Any] = (),
        instructions: str | None = None,
        features: Features | Mapping[str, bool] | None = None,
        agent_type: str = "agent",
        hf: Holdfast | None = None,
        delegates: Iterable[Agent | str] = (),
        plugins: Iterable[Any] = (),
        permission: Callable[[PermissionRequest], Any] | Suspend | str | None = None,
        max_iterations: int = 1000,
        max_context_tokens: int | None = None,
        strategy: Strategy = "none",
        tool_timeout_ms: int | None = None,
        heartbeat_ms: int = 30_000,
        model_settings: Mapping[str, Any] | None = None,
        deps: Any = None,
        limits: RunLimits | Mapping[str, Any] | None = None,
        output_type: Any = str,
        mcp_servers: Iterable[Any] | Mapping[str, Any] | McpServers = (),
    ) -> None:
        features = settle_features(features)
        check_lists(tools=tools, delegates=delegates, plugins=plugins)
        named = {"name": name, "description": description, "agent_type": agent_type, "session_id": session_id}
        check_texts(**named, instructions=instructions)
        check_permission(permission)
        check_map(model_settings=model_settings)
        check_whole(1, or_none=True, tool_timeout_ms=tool_timeout_ms)
        self.agent_id, self.agent_type = None if agent_id is None else fit_id(agent_id), agent_type
        self.spec: Spec = Spec(
            name=name or agent_id or DEFAULT_NAME,
            description=description,
            model=resolve_model(model),
            remake=partial(resolve_model, model) if isinstance(model, str) else None,
            instructions=instructions,
            tools=tuple(as_tools(tools)),
            features=features,
            bounds=RunBounds(
                max_iterations=max_iterations,
                max_context_tokens=max_context_tokens,
                strategy=strategy,
                heartbeat_ms=heartbeat_ms,
                limits=RunLimits() if limits is None else made("limits", RunLimits, limits),
            ),
            permission=permission,
            tool_timeout_ms=tool_timeout_ms,
            model_settings=None if model_settings is None else dict(model_settings),
            delegates=specs_of(delegates, model),
            deps=deps,
            output=output_of(output_type),
            servers=servers_of(mcp_servers),
        )
        # Every mistake in the arguments is found before a store is opened.
        self._check_tools()
        self._plugins, self._steerings, self._opening = SessionPlugins(plugins), Steerings(), threading.Lock()
        self._session_id, self._owns_hf, self._closed = session_id, False, False
        self._session: Session | None = None
        self._persistence = settle_persistence(
            persistent_session, flag=features.persistent_session, named=session_id is not None
        )
        self._home = self._find_home(hf)
        self._load_on_create()

    async def run(
        self, prompt: Prompt, *, session: Session | None = None, variables: Mapping[str, Any] | None = None
    ) -> RunResult:
        """Answer a prompt: a text, blocks, or None to continue what was interrupted.

        Everything is recorded as it happens; turns of one session wait for each other. Raises
        ModelFailed, TooManyIterations and the store's errors; the session stays usable.
        """
        return await (await self._turn(session)).answer(prompt, variables)

    run_sync = sync_twin(run)

    def run_stream(
        self, prompt: Prompt, *, session: Session | None = None, variables: Mapping[str, Any] | None = None
    ) -> RunStream:
        """Answer a prompt word by word; see :class:`RunStream`."""

        async def start(emit: Callable[[str], None]) -> RunResult:
            return await (await self._turn(session, emit, steering)).answer(prompt, variables)

        steering = self._steerings.new()
        return RunStream(start, steering)

    async def resume(
        self,
        token: str,
        value: Any = None,
        *,
        answers: Mapping[str, Any] | None = None,
        session: Session | None = None,
        by: str = "user",
    ) -> RunResult:
        """Continue a waiting run: a session's id with ``answers``, or a token with its value.

        ``answers`` are by the ids of the questions: True, False, ``Edited(args)`` or ``Result(value)``; answers given
        elsewhere count as well, and unanswered questions stay open. UsageError names a question that is not
        open. With a token it raises ResumeTokenInvalid, -Expired or -Used; then nothing has changed.
        """
        return await self._resume(token, value, answers, session, by)

    resume_sync = sync_twin(resume)

    def resume_stream(
        self,
        token: str,
        value: Any = None,
        *,
        answers: Mapping[str, Any] | None = None,
        session: Session | None = None,
        by: str = "user",
    ) -> RunStream:
        """Continue a waiting run, word by word; see :meth:`resume`."""

        async def start(emit: Callable[[str], None]) -> RunResult:
            return await self._resume(token, value, answers, session, by, emit, steering)

        steering = self._steerings.new()
        return RunStream(start, steering)

    async def _resume(  # noqa: PLR0917 - what the three forms of resume were given
        self,
        token: str,
        value: Any,
        answers: Mapping[str, Any] | None,
        session: Session | None,
        by: str,
        emit: Callable[[str], None] | None = None,
        steering: Steering | None = None,
    ) -> RunResult:
        if answers is None:
            return await (await self._turn(session, emit, steering)).resume(token, value)
        async with contextlib.AsyncExitStack() as stack:
            if session is None and token != self.session_id:
                home = self._needs_home("open a session")
                check_answers(answers)
                # Kept first: they count also if another process has the session, which then takes them.
                if answers:
                    await self._check_edits(home.hf, token, answers)
                    await asyncio.to_thread(home.hf.inbox.give, token, answers, by=by)
                opened = await asyncio.to_thread(home.hf.session, token, resume="always", repair="auto")
                session = await stack.enter_async_context(opened)
            return await (await self._turn(session, emit, steering)).answer_asks(answers, by)

    async def _check_edits(self, hf: Holdfast, session_id: str, answers: Mapping[str, Any]) -> None:
        if any(isinstance(given, Edited) for given in answers.values()):
            await self._load_model()
            asks = (await asyncio.to_thread(hf.state, session_id)).asks
            await check_edits(self.spec, answers, asks, partial(hf.events, session_id))

    def steer(self, text: str, *, interrupt: bool = False, session: Session | str | None = None) -> None:
        """Send a message to the agent while it works, from any thread or task.

        The message is recorded as it comes and reaches the model before its next step; a delegate's work is one step of
        the agent that called it. With ``interrupt`` the current step is stopped first: an answer is cut off where it
        is, and tools are cancelled, which the model is told. What was done until then stays recorded. Raises
        UsageError if no run is active, or if several are and no session is given.
        """
        id = session.id if isinstance(session, Session) else session
        self._steerings.find(id, self.session_id).say(text, interrupt=interrupt)

    async def resume_delegate(self, agent: str, run: str, *, session: Session | None = None) -> str:
        """Continue a run that a delegate began, as ``run`` (``child_run`` of ``delegation``); return its answer."""
        return await (await self._turn(session)).resume_delegate(agent, run)

    resume_delegate_sync = sync_twin(resume_delegate)

    @property
    def session(self) -> Session | None:
        """The agent's own session; None if it is not persistent or has no session yet."""
        return self._session

    @property
    def session_id(self) -> str | None:
        """The id of the agent's own session."""
        return self._session_id if self._session is None else self._session.id

    @property
    def name(self) -> str:
        """The agent's name in its events."""
        return self.spec.name

    @property
    def status(self) -> Status:
        """The status of the agent's own session: idle, running, waiting, suspended, interrupted or failed."""
        return "idle" if self._session is None else self._session.live_state.status

    def load(self) -> bool:
        """Open the agent's session; return whether there was one.

        Raises AgentTypeMismatch if it belongs to an agent of another type, and Locked while another
        process has it. A damaged one is repaired, with a warning.
        """
        home = self._needs_home("load")
        wanted = self._session_id or home.current()
        if wanted is None or not home.hf.exists(wanted):
            home.current()  # the type of the stored agent is checked all the same
            return False
        if self._session is None or self._session.id != wanted:
            self._let_go()
            self._session = self._open(wanted)
        return True

    def save(self) -> None:
        """Flush everything so far, and make it the session that the agent finds next time."""
        home = self._needs_home("save")
        if self._session is None:
            return
        self._plugins.host(self._session, self._documents()).save()
        self._session.flush()
        home.point_to(self._session.id)

    def new_session(self) -> None:
        """Leave the current session; the next run begins a new one."""
        self._needs_home("begin a session")
        self._let_go()
        self._session_id = None

    aload, asave, anew_session = twin(load), twin(save), twin(new_session)

    @property
    def closed(self) -> bool:
        """True once the agent was closed; it cannot run any more."""
        return self._closed

    def close(self) -> None:
        """Save if so configured, stop the timers and release the session."""
        if self._closed:
            return
        self._closed = True
        self._let_go()
        self.spec.close_servers()
        if self._owns_hf and self._home is not None:
            self._home.hf.close()

    async def aclose(self) -> None:
        """Do what ``close`` does, without blocking the event loop."""
        session, self._session = self._session, None
        if session is not None and not self._closed:
            self._before_closing(session)
            await session.aclose(save=self._saves_on_close())
        await asyncio.to_thread(self.close)

    @property
    def custom_instructions(self) -> str | None:
        """The agent's ``custom_instructions.md``, which a person may edit too."""
        return read_custom(self._needs_home("have instructions").documents)

    @custom_instructions.setter
    def custom_instructions(self, text: str | None) -> None:
        home = self._needs_home("have instructions")
        write_custom(home.hf, home.documents, text)

    def configure_tools(
        self,
        *,
        enabled: Mapping[str, bool | None] | None = None,
        namespaces: Mapping[str, str | None] | None = None,
        priorities: Mapping[str, int | None] | None = None,
        session: Session | None = None,
    ) -> None:
        """Enable and disable tools or namespaces, group and rank them; recorded in the session."""
        given = {"enabled": enabled, "namespaces": namespaces, "priorities": priorities}
        data = {name: dict(value) for name, value in given.items() if value is not None}
        if data:
            (session or self._own_session()).append("tools", data)

    def allow_tool(self, tool: str, *, session: Session | None = None) -> None:
        """Let a tool run without asking."""
        self._list_tool(tool, "allowlist", session)

    def block_tool(self, tool: str, *, session: Session | None = None) -> None:
        """Never let a tool run, whatever approvals exist."""
        self._list_tool(tool, "blocklist", session)

    def unlist_tool(self, tool: str, *, session: Session | None = None) -> None:
        """Remove a tool from both lists."""
        self._list_tool(tool, "unlist", session)

    aconfigure_tools = twin(configure_tools)
    aallow_tool, ablock_tool, aunlist_tool = twin(allow_tool), twin(block_tool), twin(unlist_tool)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Agent {self.name} {self.spec.model.model_name}>"

    async def _turn(
        self, session: Session | None, emit: Callable[[str], None] | None = None, steering: Steering | None = None
    ) -> AgentTurn:
        if self._closed:
            raise UsageError(f"the agent {self.name} is closed")
        await self._load_model()
        if session is None and self._persistence is not None:
            # Opening reads the whole log: never on the event loop.
            session = await asyncio.to_thread(self._own_session)
        hf = None if self._home is None else self._home.hf
        steering = steering or self._steerings.new()
        return AgentTurn(self.spec, session, hf, self._documents(), emit, self._plugins, steering)

    async def _load_model(self) -> None:
        if isinstance(self.spec.model, LateModel):
            # Before anything is recorded; in a thread, since it may load a library or a file of many megabytes.
            self.spec = replace(self.spec, model=await in_thread(self.spec.model.get, name="model"))
            self._check_tools()

    def _check_tools(self) -> None:
        """Make the descriptions of the tools for the model.

        Raises UsageError if one cannot be made, or two names clash.
        """
        check_delegates(self.spec)
        if not isinstance(self.spec.model, (Engine, LateModel)):
            for tool in self.spec.tools:
                tool.describe()

    def _find_home(self, hf: Holdfast | None) -> AgentHome | None:
        check_library(hf)
        storage = None if self._persistence is None else self._persistence.storage
        if isinstance(storage, Holdfast):
            hf = storage
        elif hf is None:
            if self._persistence is None:
                return None
            hf, self._owns_hf = open_library(storage), True
        if self.agent_id is None:
            self.agent_id = fit_id(self.spec.name)
        return AgentHome(hf, self.agent_id, self.agent_type)

    def _load_on_create(self) -> None:
        if self._persistence is None or not self._persistence.load_on_create:
            return
        try:
            self.load()
        except Locked:
            if not (self._persistence.wait_ms and in_event_loop()):
                self.close()
                raise
            # The first run waits for it, in a thread; waiting here would block the loop.
            self._session_id = self._session_id or self._needs_home("load").current()
        except BaseException:
            self.close()  # the caller cannot: there is no agent yet
            raise

    def _needs_home(self, what: str) -> AgentHome:
        if self._home is None:
            raise UsageError(
                f"the agent {self.name} is not persistent and cannot {what}",
                remedy="Make it with persistent_session=True.",
            )
        return self._home

    def _own_session(self) -> Session:
        """Return the agent's session, created now if there is none. The pointer is updated, unless staged."""
        home = self._needs_home("have a session")
        with self._opening:
            if self._session is None or self._session.closed:
                self._session = self._open(self._session_id)
            if self._persistence is not None and not self._persistence.staged:
                home.point_to(self._session.id)
            return self._session

    def _open(self, session_id: str | None) -> Session:
        home, kept = self._needs_home("have a session"), self._persistence or PersistentSession()
        return home.open_session(
            session_id, staged=kept.staged, autosave_ms=kept.autosave_ms, wait_ms=kept.wait_ms, memory=kept.memory
        )

    def _let_go(self) -> None:
        session, self._session = self._session, None
        if session is not None and not session.closed:
            self._before_closing(session)
            session.close(save=self._saves_on_close())

    def _before_closing(self, session: Session) -> None:
        if self._saves_on_close() and session.seq >= 0:
            self._plugins.host(session, self._documents()).save()
            self._needs_home("close").point_to(session.id)

    def _saves_on_close(self) -> bool:
        return self._persistence is not None and self._persistence.save_on_close

    def _list_tool(self, tool: str, decision: str, session: Session | None) -> None:
        if not self.spec.features.permissions:
            raise UsageError(
                f"permissions are off for {self.name}: a list of tools would not be heeded",
                remedy="Make the agent with Features(permissions=True).",
            )
        target = session or self._own_session()
        target.append("permission", {"tool": tool, "decision": decision})
        target.barrier()

    def _documents(self) -> Documents | None:
        return None if self._home is None else self._home.documents


def specs_of(delegates: Iterable[Any], model: Any) -> tuple[Spec, ...]:
    """Return the specs of delegates; a name means an agent that has a file. Raises UsageError."""
    found = []
    for delegate in delegates:
        if isinstance(delegate, str):
            from holdfast.agent._agent_files import check_read, load_agents
            from holdfast.agent._builtin import builtin_tools

            files = load_agents()
            if delegate not in files:
                check_read(delegate, files.values())
                raise UsageError(
                    f"no agent {delegate!r} has a file", remedy=f"There are: {', '.join(files) or 'none'}."
                )
            delegate = files[delegate].agent(model, tools=builtin_tools(), agents=files)  # noqa: PLW2901 - what it names
        if not isinstance(delegate, Agent):
            raise UsageError(f"a delegate is an Agent or the name of one, not {type(delegate).__name__}")
        found.append(delegate.spec)
    return tuple(found)

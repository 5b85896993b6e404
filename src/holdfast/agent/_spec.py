"""What an agent is made of, apart from where it lives; and what a run has at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.agent._cache import ResultCache
from holdfast.agent._context import ToolContext
from holdfast.agent._engine import Engine
from holdfast.agent._execution import Executor
from holdfast.agent._loop import Loop, LoopOutcome, RunBounds, beating
from holdfast.agent._options import Features
from holdfast.agent._permissions import Gate, PermissionRequest, StandingApprovals
from holdfast.agent._plugins import Plugin, PluginHost
from holdfast.agent._reply import Usage
from holdfast.agent._run_log import RunLog
from holdfast.agent._tools import Tool
from holdfast.library import Holdfast
from holdfast.replay import MemoryEntry, ToolState
from holdfast.session import Session, check_unsealed
from holdfast.storage import Documents


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An agent's parts: its model, what it is told, what it can do and how far it may go."""

    name: str
    model: Any
    remake: Callable[[], Any] | None = None
    """Makes the model once more; None if the caller made it."""
    description: str = ""
    instructions: str | None = None
    tools: tuple[Tool, ...] = ()
    features: Features = field(default_factory=Features)
    bounds: RunBounds = field(default_factory=RunBounds)
    permission: Callable[[PermissionRequest], Any] | None = None
    tool_timeout_ms: int | None = None
    model_settings: dict[str, Any] | None = None
    delegates: tuple[Spec, ...] = ()
    deps: Any = None


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """Where a run takes place: ``home`` keeps the state, ``talks`` the conversation.

    They are one session, unless the agent has no history: then the conversation is thrown away.
    """

    home: Session
    talks: Session
    hf: Holdfast | None = None
    documents: Documents | None = None


@dataclass(kw_only=True)
class Activity:
    """One run of one agent: the parts that belong to it alone, made anew for each."""

    spec: Spec
    place: RunPlace
    talk: RunLog
    depth: int = 0
    usage: Usage = field(default_factory=Usage)
    emit: Callable[[str], None] | None = None
    plugins: list[Plugin] = field(default_factory=list)
    extra_tools: tuple[Tool, ...] = ()

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.host = PluginHost(self.plugins, self.place.home, self.place.documents)
        self.tools = enabled_tools(
            (*self.spec.tools, *self.extra_tools), self.place.home.live_state.tools
        )
        self.gate = self._make_gate()
        self.executor = self._make_executor()

    def _make_gate(self) -> Gate:
        documents, home = self.place.documents, self.place.home
        standing = None
        if documents is not None:
            standing = StandingApprovals(documents, home.tell_repaired)
        return Gate(
            home,
            agent=self.spec.name,
            prompt=self.spec.permission,
            standing=standing,
            enabled=self.spec.features.permissions,
        )

    def _make_executor(self) -> Executor:
        cached = [tool.name for tool in self.tools.values() if tool.cache_ms]
        use_cache = bool(cached) and self.spec.features.memory
        return Executor(
            self.talk,
            self.tools,
            self.gate,
            context=self.context,
            cache=ResultCache(self.place.home, cached) if use_cache else None,
            timeout_ms=self.spec.tool_timeout_ms,
            watch=lambda name, args: self.host.tell("on_tool", self.context(""), name, args),
        )

    def context(self, call_id: str) -> ToolContext:
        """What a tool of this run gets."""
        return ToolContext(
            self.place.home,
            agent=self.spec.name,
            call_id=call_id,
            hf=self.place.hf,
            memory_on=self.spec.features.memory,
            deps=self.spec.deps,
        )

    async def loop(self) -> LoopOutcome:
        """Run until the model is done, with a sign of life now and then."""
        engine = Engine(self.spec.model, self.spec.model_settings, self.spec.remake)
        loop = Loop(
            self.talk,
            engine,
            self.executor,
            self.tools,
            bounds=self.spec.bounds,
            instructions=self.instructions(),
            usage=self.usage,
            emit=self.emit,
        )
        async with engine, beating(self.talk, loop, self.spec.bounds.heartbeat_ms):
            return await loop.run()

    def instructions(self) -> Callable[[], str | None]:
        """What gives the instructions for each request: the file is read once for each run."""
        spec, home = self.spec, self.place.home
        base = spec.instructions
        if base is None and self.depth == 0:
            base = home.live_state.instructions
        wants_custom = spec.features.persistent_instructions and self.depth == 0
        custom = read_custom(self.place.documents) if wants_custom else None
        shows = spec.features.memory and spec.features.in_context_memory
        return lambda: render_instructions(base, custom, home, show_memory=shows)

    def elapsed_ms(self) -> int:
        """How long the run has taken so far."""
        return int((time.monotonic() - self.started) * 1000)


def enabled_tools(tools: tuple[Tool, ...], state: ToolState) -> dict[str, Tool]:
    """The tools that are switched on, by name, those of higher priority first."""

    def namespace(tool: Tool) -> Any:
        return state.namespaces.get(tool.name, tool.namespace)

    def is_on(tool: Tool) -> bool:
        group = namespace(tool)
        default = state.enabled.get(group, True) if isinstance(group, str) else True
        return bool(state.enabled.get(tool.name, default))

    def rank(tool: Tool) -> float:
        given = state.priorities.get(tool.name, tool.priority)
        return -given if isinstance(given, int | float) else 0

    return {tool.name: tool for tool in sorted(tools, key=rank) if is_on(tool)}


# What the model is told before the conversation.


CUSTOM = "custom_instructions.md"
_MEMORY_BYTES_MAX = 8 * 1024
_ORDER = {"critical": 0, "high": 1, "normal": 2, "low": 3}


def read_custom(documents: Documents | None) -> str | None:
    """The agent's ``custom_instructions.md`` as it is now: a person may have edited it."""
    found = documents.get(CUSTOM) if documents is not None else None
    text = check_unsealed(found[0], CUSTOM).decode("utf-8", "replace").strip() if found else ""
    return text or None


def write_custom(documents: Documents, text: str | None) -> None:
    """Replace the agent's ``custom_instructions.md``; an empty text removes it."""
    if text is None or not text.strip():
        documents.delete(CUSTOM)
    else:
        documents.put(CUSTOM, text.strip().encode() + b"\n")


def render_instructions(
    base: str | None, custom: str | None, session: Session | None, *, show_memory: bool
) -> str | None:
    """The parts that there are, one after the other."""
    memory = render_memory(session) if show_memory and session is not None else None
    return "\n\n".join(part for part in (base, custom, memory) if part) or None


def render_memory(session: Session) -> str | None:
    """What is remembered, the most important first; what has no room is only named."""
    entries = sorted(session.memory.entries().values(), key=_rank)
    if not entries:
        return None
    lines = ["What you remember:"]
    room = _MEMORY_BYTES_MAX
    for entry in entries:
        line = _line(entry, _shown(entry.value))
        if len(line.encode()) > room:
            line = _line(entry, "(use recall to read it)")
        room -= len(line.encode())
        if room < 0:
            lines.append("- (more: use recall)")
            break
        lines.append(line)
    return "\n".join(lines)


def _rank(entry: MemoryEntry) -> tuple[int, int, str]:
    return (0 if entry.pinned else 1, _ORDER.get(entry.priority, 2), entry.key)


def _line(entry: MemoryEntry, value: str) -> str:
    about = f" ({entry.description})" if entry.description else ""
    return f"- {entry.key}{about}: {value}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

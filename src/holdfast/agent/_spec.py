"""The parts of an agent, its plugins and instructions, and the context of a run."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import msgspec

from holdfast.agent._context import Suspend, ToolContext, plain_result
from holdfast.agent._engine import engine_of
from holdfast.agent._execution import Executor, ResultCache
from holdfast.agent._interjections import Steering
from holdfast.agent._limits import RunMeter
from holdfast.agent._loop import Loop, LoopOutcome, RunBounds, beating
from holdfast.agent._options import Features
from holdfast.agent._output import OutputForm
from holdfast.agent._permissions import Gate, PermissionRequest, StandingApprovals
from holdfast.agent._run_log import RunLog
from holdfast.agent._tools import Tool
from holdfast.errors import UsageError
from holdfast.library import Holdfast, redacted
from holdfast.model import Limits, encode_data, fit_id
from holdfast.replay import MemoryEntry, ToolState
from holdfast.session import PLUGINS, PluginDocument, Session, check_unsealed, read_or_begin
from holdfast.storage import Documents

if TYPE_CHECKING:
    from holdfast.agent._mcp_servers import McpServers
    from holdfast.catalog import Prices

ENTRY_POINTS = "holdfast.plugins"


class PluginWarning(UserWarning):
    """A plugin failed; the agent goes on without it."""


@runtime_checkable
class Plugin(Protocol):
    """The protocol of a plugin. ``version`` is that of its state, and is handed back with it.

    With ``scope = "persistent"`` the state belongs to the agent and is the same in all of its sessions; otherwise it
    belongs to the session. Optional hooks: ``on_turn_start(context, prompt)``, ``on_turn_end(context, output)`` and
    ``on_tool(context, name, args)``.
    """

    name: str
    version: int | str

    def get_state(self) -> Any:
        """Return the state to keep: plain JSON data."""

    def restore_state(self, state: Any, version: int | str | None) -> None:
        """Restore a state from ``get_state`` of this or an earlier version."""


def find_plugins(given: Iterable[Any]) -> list[Plugin]:
    """Return the plugins; a name means an installed one (entry point)."""
    found = [_installed(item) if isinstance(item, str) else item for item in given]
    for item in found:
        if not isinstance(item, Plugin):
            raise UsageError(f"{item!r} is not a plugin: it lacks name, version or its methods")
    names = [plugin.name for plugin in found]
    if len(set(names)) < len(names):
        raise UsageError("two plugins have the same name")
    return found


def _installed(name: str) -> Any:
    from importlib.metadata import entry_points  # it loads more than an agent does

    known = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise UsageError(f"no plugin {name!r} is installed", remedy=f"Installed ones: {names}.")
    made = known[name].load()
    return made() if isinstance(made, type) else made


def _place(plugin: Plugin) -> str:
    return f"{PLUGINS}{fit_id(plugin.name)}.json"


@dataclass(frozen=True)
class PluginHost:
    """The plugins of one agent on one session. A failing plugin never disturbs the agent."""

    plugins: list[Plugin]
    session: Session
    documents: Documents | None = None

    def restore(self) -> None:
        """Restore the state of each plugin. The state of other plugins stays."""
        for plugin in self.plugins:
            with _guarded(plugin):
                kept = self._kept(plugin)
                if kept is not None:
                    plugin.restore_state(*kept)

    def _kept(self, plugin: Plugin) -> tuple[Any, int | str | None] | None:
        if documents := self._lasting(plugin):
            tell = self.session.tell_repaired
            lasting = read_or_begin(documents, _place(plugin), PluginDocument, tell)[0]
            return None if lasting.version is None else (lasting.state, lasting.version)
        kept = self.session.live_state.plugins.get(plugin.name)
        return None if kept is None else (kept.state, kept.version)

    def _lasting(self, plugin: Plugin) -> Documents | None:
        """Return the documents for a plugin whose state outlives the session; None for any other."""
        return self.documents if getattr(plugin, "scope", "session") == "persistent" else None

    def save(self) -> None:
        """Record the state of each plugin that has changed."""
        for plugin in self.plugins:
            with _guarded(plugin):
                # A plugin may change its state while we use it: it is copied, as JSON, at once.
                state = plain_result(plugin.get_state())
                kept = self._kept(plugin)
                if kept == (state, plugin.version) or (kept is None and state is None):
                    continue
                data = {"name": plugin.name, "state": state, "version": plugin.version}
                if documents := self._lasting(plugin):
                    documents.put(_place(plugin), encode_data(self.session.redacted(data), Limits()))
                else:
                    self.session.append("plugin_state", data)

    def tell(self, hook: str, *args: Any) -> None:
        """Call a hook of every plugin that has it."""
        for plugin in self.plugins:
            method = getattr(plugin, hook, None)
            if callable(method):
                with _guarded(plugin):
                    method(*args)


@contextlib.contextmanager
def _guarded(plugin: Plugin) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a plugin never disturbs the agent
        text = f"plugin {plugin.name} failed: {type(error).__name__}: {error}"
        warnings.warn(text, PluginWarning, stacklevel=4)


class SessionPlugins:
    """The plugins of an agent, for each of its sessions: a class is instantiated for each."""

    def __init__(self, given: Iterable[Any]) -> None:
        """Raises UsageError for an object that is not a plugin."""
        self._given = list(given)
        self._known: WeakKeyDictionary[Session, list[Plugin]] = WeakKeyDictionary()
        self._make()

    def host(self, session: Session, documents: Documents | None) -> PluginHost:
        """Return the plugins of one session; the first time, their state is restored."""
        if session in self._known:
            return PluginHost(self._known[session], session, documents)
        # Weakly by session: the plugins of a closed session must not keep it alive.
        host = PluginHost(self._known.setdefault(session, self._make()), session, documents)
        host.restore()
        return host

    def _make(self) -> list[Plugin]:
        return find_plugins(item() if isinstance(item, type) else item for item in self._given)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The parts of an agent: its model, instructions, tools and bounds."""

    name: str
    model: Any
    remake: Callable[[], Any] | None = None
    """Makes the model once more; None if the caller made it."""
    description: str = ""
    instructions: str | None = None
    tools: tuple[Tool, ...] = ()
    features: Features = field(default_factory=Features)
    bounds: RunBounds = field(default_factory=RunBounds)
    permission: Callable[[PermissionRequest], Any] | Suspend | str | None = None
    tool_timeout_ms: int | None = None
    model_settings: dict[str, Any] | None = None
    delegates: tuple[Spec, ...] = ()
    deps: Any = None
    output: OutputForm | None = None
    """The form of a run's output, if it is not a text."""
    servers: McpServers | None = None
    """The MCP servers whose tools the agent may call as well."""

    async def equipped(self) -> Spec:
        """Return this agent with the tools of its MCP servers, which are started if necessary."""
        if self.servers is None:
            return self
        taken = {tool.name for tool in self.tools}
        return replace(self, tools=(*self.tools, *await self.servers.tools(taken)))

    def close_servers(self) -> None:
        """Stop the MCP servers of this agent and of its delegates."""
        if self.servers is not None:
            self.servers.close()
        for child in self.delegates:
            child.close_servers()


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """The sessions of a run: ``home`` has the state, ``talks`` the conversation (another one without history)."""

    home: Session
    talks: Session
    hf: Holdfast | None = None
    documents: Documents | None = None
    lasts: bool = True
    """True if the conversation can be continued later."""


@dataclass(kw_only=True)
class Activity:
    """One run of one agent: the parts that are created for each run."""

    spec: Spec
    place: RunPlace
    talk: RunLog
    host: PluginHost
    delegate_tool: Callable[[Spec, Activity], Tool]
    """Makes the tool by which this activity calls another agent."""
    depth: int = 0
    payer: RunMeter | None = None
    """The meter of the calling agent, which counts this run's usage too."""
    prices: Prices | None = None
    emit: Callable[[str], None] | None = None
    steering: Steering = field(default_factory=Steering)
    path: tuple[str, ...] = ()
    """The runs of delegates down to this one; empty for the first agent."""
    above: tuple[str, ...] = ()
    """The calls of those delegates."""

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.meter = RunMeter(self.spec.bounds.limits, self.spec.model.model_name, self.prices, self.payer)
        spec, home, documents = self.spec, self.place.home, self.place.documents
        others = [self.delegate_tool(child, self) for child in spec.delegates]
        self.engine = engine_of(spec.model, spec.model_settings, spec.remake)
        own = getattr(self.engine, "tools", ())
        self.tools = enabled_tools((*spec.tools, *others, *own), home.live_state.tools)
        if spec.output is not None:
            self.tools |= {tool.name: tool for tool in spec.output.tools}
        gate = Gate(
            session=home,
            agent=spec.name,
            prompt=spec.permission,
            standing=None if documents is None else StandingApprovals(documents, home.tell_repaired),
            enabled=spec.features.permissions,
            can_wait=self.place.lasts,
        )
        cached = [tool.name for tool in self.tools.values() if tool.cache_ms]
        self.executor = Executor(
            talk=self.talk,
            tools=self.tools,
            gate=gate,
            context=self.context,
            cache=ResultCache(home, cached) if cached and spec.features.memory else None,
            timeout_ms=spec.tool_timeout_ms,
            path=self.path,
            above=self.above,
            watch=lambda name, args: self.host.tell("on_tool", self.context(""), name, args),
        )

    def context(self, call_id: str) -> ToolContext:
        return ToolContext(
            self.place.home,
            agent=self.spec.name,
            call_id=call_id,
            hf=self.place.hf,
            memory_on=self.spec.features.memory,
            deps=self.spec.deps,
        )

    async def loop(self) -> LoopOutcome:
        """Run until the model is done, with heartbeats."""
        loop = Loop(
            talk=self.talk,
            engine=self.engine,
            executor=self.executor,
            tools=tuple(self.tools.values()),
            bounds=self.spec.bounds,
            instructions=self.instructions(),
            meter=self.meter,
            emit=self.emit,
            steering=self.steering,
            output=self.spec.output,
        )
        async with self.engine, beating(self.talk, loop, self.spec.bounds.heartbeat_ms):
            return await loop.run()

    def instructions(self) -> Callable[[], str | None]:
        """Return a function that gives the instructions for each request: the file is read once for each run."""
        spec, home = self.spec, self.place.home
        base = spec.instructions
        if base is None and self.depth == 0:
            base = home.live_state.instructions
        wants_custom = spec.features.persistent_instructions and self.depth == 0
        custom = read_custom(self.place.documents) if wants_custom else None
        shows = spec.features.memory and spec.features.in_context_memory

        def render() -> str | None:
            parts = (base, custom, render_memory(home) if shows else None)
            return "\n\n".join(part for part in parts if part) or None

        return render

    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


def enabled_tools(tools: tuple[Tool, ...], state: ToolState) -> dict[str, Tool]:
    """Return the enabled tools, by name, those of higher priority first."""

    def is_on(tool: Tool) -> bool:
        group = state.namespaces.get(tool.name, tool.namespace)
        default = state.enabled.get(group, True) if isinstance(group, str) else True
        return bool(state.enabled.get(tool.name, default))

    def rank(tool: Tool) -> float:
        given = state.priorities.get(tool.name, tool.priority)
        return -given if isinstance(given, int | float) else 0

    return {tool.name: tool for tool in sorted(tools, key=rank) if is_on(tool)}


# The instructions before the conversation.

CUSTOM = "custom_instructions.md"
_MEMORY_BYTES_MAX = 8 * 1024
_ORDER = {"critical": 0, "high": 1, "normal": 2, "low": 3}


def read_custom(documents: Documents | None) -> str | None:
    """Return the agent's ``custom_instructions.md`` as it is now: a person may have edited it."""
    found = documents.get(CUSTOM) if documents is not None else None
    text = check_unsealed(found[0], CUSTOM).decode("utf-8", "replace").strip() if found else ""
    return text or None


def write_custom(hf: Holdfast, documents: Documents, text: str | None) -> None:
    """Replace the agent's ``custom_instructions.md``, without secrets; an empty text removes it."""
    if text is None or not text.strip():
        documents.delete(CUSTOM)
    else:
        kept = redacted(hf, {"content": text.strip()})["content"]
        documents.put(CUSTOM, kept.encode() + b"\n")


def render_memory(session: Session) -> str | None:
    """Return the memory as text, the most important first; entries that do not fit are only named."""

    def rank(entry: MemoryEntry) -> tuple[bool, int, str]:
        return not entry.pinned, _ORDER.get(entry.priority, 2), entry.key

    entries = sorted(session.memory.entries().values(), key=rank)
    if not entries:
        return None
    lines = ["What you remember:"]
    room = _MEMORY_BYTES_MAX
    for entry in entries:
        about = f" ({entry.description})" if entry.description else ""
        value = entry.value if isinstance(entry.value, str) else msgspec.json.encode(entry.value).decode()
        line = f"- {entry.key}{about}: {value}"
        if len(line.encode()) > room:
            line = f"- {entry.key}{about}: (use recall to read it)"
        room -= len(line.encode())
        if room < 0:
            lines.append("- (more: use recall)")
            break
        lines.append(line)
    return "\n".join(lines)

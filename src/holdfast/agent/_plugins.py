"""Plugins: state of their own that is kept with the session, and hooks into its turns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from holdfast.agent._tool_results import plain_result
from holdfast.errors import UsageError
from holdfast.model import Limits, encode_data, fit_id
from holdfast.session import PLUGINS, PluginDocument, Session, read_or_begin
from holdfast.storage import Documents

ENTRY_POINTS = "holdfast.plugins"


class PluginWarning(UserWarning):
    """A plugin failed; the agent goes on without it."""


@runtime_checkable
class Plugin(Protocol):
    """What a plugin must have. ``version`` is of its state, and is handed back with it.

    With ``scope = "persistent"`` the state belongs to the agent and is the same in all of its
    sessions; otherwise it belongs to the session. Optional hooks:
    ``on_turn_start(context, prompt)``, ``on_turn_end(context, output)`` and
    ``on_tool(context, name, args)``.
    """

    name: str
    version: int | str

    def get_state(self) -> Any:
        """What is to be kept: plain JSON data."""

    def restore_state(self, state: Any, version: int | str | None) -> None:
        """Take back what ``get_state`` of this or an earlier version gave."""


def find_plugins(given: Iterable[Any]) -> list[Plugin]:
    """The plugins themselves; a name stands for an installed one (entry point)."""
    found = [_installed(item) if isinstance(item, str) else item for item in given]
    for item in found:
        if not isinstance(item, Plugin):
            raise UsageError(f"{item!r} is not a plugin: it lacks name, version or its methods")
    names = [plugin.name for plugin in found]
    if len(set(names)) < len(names):
        raise UsageError("two plugins have the same name")
    return found


def _installed(name: str) -> Any:
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == name:
            made = point.load()
            return made() if isinstance(made, type) else made
    known = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    raise UsageError(
        f"no plugin {name!r} is installed",
        remedy=f"Installed ones: {', '.join(known) or 'none'}.",
    )


def _place(plugin: Plugin) -> str:
    return f"{PLUGINS}{fit_id(plugin.name)}.json"


class PluginHost:
    """The plugins of one agent on one session. A plugin that fails never disturbs the agent."""

    def __init__(
        self, plugins: list[Plugin], session: Session, documents: Documents | None = None
    ) -> None:
        self._plugins = plugins
        self._session = session
        self._documents = documents

    def restore(self) -> None:
        """Give each plugin what it asked to be kept. What belongs to no plugin here stays."""
        for plugin in self._plugins:
            self._guard(plugin, partial(self._restore_one, plugin))

    def _restore_one(self, plugin: Plugin) -> None:
        kept = self._kept(plugin)
        if kept is not None:
            plugin.restore_state(*kept)

    def _kept(self, plugin: Plugin) -> tuple[Any, int | str | None] | None:
        """The state that is stored for a plugin, and its version."""
        if self._documents is not None and self._is_lasting(plugin):
            tell = self._session.tell_repaired
            lasting = read_or_begin(self._documents, _place(plugin), PluginDocument, tell)[0]
            return None if lasting.version is None else (lasting.state, lasting.version)
        kept = self._session.live_state.plugins.get(plugin.name)
        return None if kept is None else (kept.state, kept.version)

    def _is_lasting(self, plugin: Plugin) -> bool:
        return getattr(plugin, "scope", "session") == "persistent" and self._documents is not None

    def save(self) -> None:
        """Record the state of each plugin that has changed."""
        for plugin in self._plugins:
            self._guard(plugin, partial(self._save_one, plugin))

    def _save_one(self, plugin: Plugin) -> None:
        state = plain_result(plugin.get_state())
        kept = self._kept(plugin)
        if kept == (state, plugin.version) or (kept is None and state is None):
            return
        data = {"name": plugin.name, "state": state, "version": plugin.version}
        if self._is_lasting(plugin) and self._documents is not None:
            kept_data = self._session.redacted(data)
            self._documents.put(_place(plugin), encode_data(kept_data, Limits()))
        else:
            self._session.append("plugin_state", data)

    def tell(self, hook: str, *args: Any) -> None:
        """Call a hook of every plugin that has it."""
        for plugin in self._plugins:
            method = getattr(plugin, hook, None)
            if callable(method):
                self._guard(plugin, partial(method, *args))

    def _guard(self, plugin: Plugin, act: Callable[[], Any]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - a plugin never disturbs the agent
            text = f"plugin {plugin.name} failed: {type(error).__name__}: {error}"
            warnings.warn(text, PluginWarning, stacklevel=3)


class SessionPlugins:
    """The plugins of an agent, for each of its sessions: a class gives each one of its own."""

    def __init__(self, given: Iterable[Any]) -> None:
        """Raises UsageError for what is no plugin."""
        self._given = list(given)
        self._known: WeakKeyDictionary[Session, list[Plugin]] = WeakKeyDictionary()
        self._make()

    def of(self, session: Session, documents: Documents | None) -> list[Plugin]:
        """Those of one session; the first time, they get back what was kept for them."""
        known = self._known.get(session)
        if known is None:
            known = self._known[session] = self._make()
            PluginHost(known, session, documents).restore()
        return known

    def host(self, session: Session, documents: Documents | None) -> PluginHost:
        """What speaks to those of one session."""
        return PluginHost(self.of(session, documents), session, documents)

    def _make(self) -> list[Plugin]:
        return find_plugins(item() if isinstance(item, type) else item for item in self._given)

"""Editors: where each keeps its agents, and how one more is written there."""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import Any, NamedTuple

from holdfast.apps.acp._settings_text import read_settings, with_member
from holdfast.errors import InvalidData, UsageError
from holdfast.storage import place_file
from holdfast.storage.loose import read_file
from holdfast.storage.urls import is_path

__all__ = ["EDITORS", "Plan", "command_line", "default_name", "plan", "write"]

_KEY = "agent_servers"


class Editor(NamedTuple):
    """An editor whose settings can be written."""

    title: str
    settings: str
    """Its file, in the user's home."""
    marks: dict[str, Any]
    """What an entry has besides its command."""


EDITORS = {
    "zed": Editor("Zed", "~/.config/zed/settings.json", {"type": "custom"}),
    "jetbrains": Editor("JetBrains IDEs", "~/.jetbrains/acp.json", {}),
}


class Plan(NamedTuple):
    """What would be written, and where."""

    path: str
    name: str
    entry: dict[str, Any]
    before: str
    after: str

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def command_line(agent: list[str], store: str | None) -> list[str]:
    """The command of an entry: the proxy in front of an agent, or our own agent."""
    if store and is_path(store):  # an editor starts it somewhere else
        store = os.path.abspath(os.path.expanduser(store))
    place = ["--store", store] if store else []
    own = _own_command()
    return [own, *place, "acp", "proxy", "--", *agent] if agent else [own, *place, "acp", "agent"]


def plan(editor: str, command: list[str], *, name: str, path: str | None = None) -> Plan:
    """What would be written. Raises InvalidData for settings that cannot be read."""
    if editor not in EDITORS:
        raise UsageError(
            f"{editor!r} is no editor whose settings can be written",
            remedy=f"One of {', '.join(EDITORS)}; the page on the ACP proxy has others.",
        )
    found = EDITORS[editor]
    place = os.path.realpath(os.path.expanduser(path or found.settings))
    before = _read(place)
    entry = {**found.marks, "command": command[0], "args": command[1:], "env": _env(before, name)}
    return Plan(place, name, entry, before, with_member(before, (_KEY, name), entry))


def write(plan: Plan) -> str | None:
    """Write the settings, whole or not at all; where the old ones are kept, if there were any."""
    backup = None
    if plan.before:
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S-%f")
        backup = f"{plan.path}.{stamp}.bak"
        place_file(backup, [plan.before.encode()])
    place_file(plan.path, [plan.after.encode()], overwrite=True, make_folders=True)
    return backup


def default_name(agent: list[str]) -> str:
    """What an entry is called in the editor's menu."""
    if not agent:
        return "Holdfast"
    words = [word for word in agent if not word.startswith("-")]
    own = os.path.basename(words[-1] if words[0] in ("npx", "node", "uvx") else words[0])
    return f"{own} (Holdfast)"


def _env(settings: str, name: str) -> dict[str, Any]:
    """The variables that an entry of that name has already are kept."""
    known = read_settings(settings).get(_KEY)
    entry = known.get(name) if isinstance(known, dict) else None
    env = entry.get("env") if isinstance(entry, dict) else None
    return env if isinstance(env, dict) else {}


def _read(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    try:
        return b"".join(read_file(path)).decode()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not text in UTF-8", remedy="Mend the file first.") from error


def _own_command() -> str:
    """This very command: an editor has its own idea of where programs are."""
    found = os.path.abspath(sys.argv[0])
    return found if os.path.basename(found) == "holdfast" and os.path.exists(found) else "holdfast"

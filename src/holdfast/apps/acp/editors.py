"""Editors: where each keeps its agents, and how one more is written there."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.apps.wire.frames import object_in
from holdfast.errors import InvalidData, UsageError
from holdfast.storage import is_path, place_file, read_file

_KEY = "agent_servers"


class Editor(NamedTuple):
    """An editor whose settings can be written."""

    title: str
    settings: str  # its file, in the user's home
    marks: dict[str, Any]  # what an entry has besides its command


EDITORS = {
    "zed": Editor("Zed", "~/.config/zed/settings.json", {"type": "custom"}),
    "jetbrains": Editor("JetBrains IDEs", "~/.jetbrains/acp.json", {}),
}


class EditorPlan(NamedTuple):
    """The planned change of a settings file."""

    path: str
    name: str
    entry: dict[str, Any]
    before: str
    after: str

    @property
    def changes(self) -> bool:
        """Return whether there is anything to write."""
        return self.before != self.after


def command_line(agent: list[str], store: str | None) -> list[str]:
    """Return the command of an entry: the proxy in front of an agent, or our own agent."""
    if store and is_path(store):  # an editor starts it somewhere else
        store = os.path.abspath(os.path.expanduser(store))
    place = ["--store", store] if store else []
    # This very command: an editor has its own idea of where programs are.
    found = os.path.abspath(sys.argv[0])
    own = found if os.path.basename(found) == "holdfast" and os.path.exists(found) else "holdfast"
    return [own, *place, "acp", "proxy", "--", *agent] if agent else [own, *place, "acp", "agent"]


def plan(editor: str, command: list[str], *, name: str, path: str | None = None) -> EditorPlan:
    """Return the change to make. Raises InvalidData for settings that cannot be read."""
    if editor not in EDITORS:
        told = f"{editor!r} is no editor whose settings can be written"
        raise UsageError(told, remedy=f"One of {', '.join(EDITORS)}; the page on the ACP proxy has others.")
    found = EDITORS[editor]
    place = os.path.realpath(os.path.expanduser(path or found.settings))
    before = _read(place)
    # The variables that an entry of that name has already are kept.
    env = object_in(read_settings(before), _KEY, name, "env")
    entry = {**found.marks, "command": command[0], "args": command[1:], "env": env}
    return EditorPlan(place, name, entry, before, with_member(before, (_KEY, name), entry))


def write(plan: EditorPlan) -> str | None:
    """Write the settings, whole or not at all; where the old ones are kept, if there were any."""
    backup = None
    if plan.before:
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S-%f")
        backup = f"{plan.path}.{stamp}.bak"
        place_file(backup, [plan.before.encode()])
    place_file(plan.path, [plan.after.encode()], overwrite=True, make_folders=True)
    return backup


def default_name(agent: list[str]) -> str:
    """Return the name of an entry in the editor's menu."""
    if not agent:
        return "Holdfast"
    words = [word for word in agent if not word.startswith("-")]
    own = os.path.basename(words[-1] if words[0] in ("npx", "node", "uvx") else words[0])
    return f"{own} (Holdfast)"


def _read(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    try:
        return b"".join(read_file(path)).decode()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not text in UTF-8", remedy="Mend the file first.") from error


# Editors' settings: JSON with comments and stray commas, changed at one place and nowhere else.
_REMEDY = "Mend the file, or write the entry by hand: --print shows it."
_SKIPPED = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRAY_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])')
_SPACE = re.compile(r"\s*")
_decoder = json.JSONDecoder()


def read_settings(text: str) -> dict[str, Any]:
    """Parse the settings. Raises InvalidData if they are not an object."""
    if not text.strip():
        return {}
    try:
        found = json.loads(_bare(text))
    except ValueError as error:
        raise InvalidData(f"the settings cannot be read: {error}", remedy=_REMEDY) from error
    if not isinstance(found, dict):
        raise InvalidData("the settings are not an object", remedy=_REMEDY)
    return found


def with_member(text: str, path: tuple[str, str], value: dict[str, Any]) -> str:
    """Return the settings with one member of one object set; all other bytes, comments too, stay.

    Raises InvalidData for settings that cannot be read, or whose shape is another.
    """
    wanted = read_settings(text)
    outer, inner = path
    group = wanted.setdefault(outer, {})
    if not isinstance(group, dict):
        raise InvalidData(f"{outer!r} in the settings is not an object", remedy=_REMEDY)
    group[inner] = value
    changed = _changed(text or "{}\n", outer, inner, value)
    if read_settings(changed) != wanted:
        raise InvalidData("the settings have a shape that cannot be changed safely", remedy=_REMEDY)
    return changed


def _changed(text: str, outer: str, inner: str, value: dict[str, Any]) -> str:
    bare = _bare(text)
    top = bare.index("{")
    groups = [start for name, start, _ in _members(bare, top) if name == outer]
    if not groups:
        body = _indented({inner: value}, 1)
        return _inserted(text, bare, top, f"{json.dumps(outer)}: {body}", 1)
    there = [(start, end) for name, start, end in _members(bare, groups[-1]) if name == inner]
    if there:
        start, end = there[-1]
        return text[:start] + _indented(value, 2) + text[end:]
    return _inserted(text, bare, groups[-1], f"{json.dumps(inner)}: {_indented(value, 2)}", 2)


def _inserted(text: str, bare: str, brace: int, member: str, depth: int) -> str:
    """Return the text with a member as the first of the object whose brace is there."""
    rest = _SPACE.match(bare, brace + 1)
    is_empty = rest is not None and bare[rest.end()] == "}"
    tail = f"\n{'  ' * (depth - 1)}" if is_empty else ","
    return f"{text[: brace + 1]}\n{'  ' * depth}{member}{tail}{text[brace + 1 :]}"


def _indented(value: dict[str, Any], depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)


def _members(bare: str, brace: int) -> Iterator[tuple[str, int, int]]:
    """Yield the members of the object whose brace is there: the name, where the value begins and where it ends."""
    at = brace + 1
    while True:
        at = _skip(bare, at)
        if bare[at] == "}":
            return
        name, at = _decoder.raw_decode(bare, at)
        start = _skip(bare, _skip(bare, at) + 1)  # after the colon
        _, at = _decoder.raw_decode(bare, start)
        yield str(name), start, at
        at = _skip(bare, at)
        at += bare[at] == ","


def _skip(bare: str, at: int) -> int:
    space = _SPACE.match(bare, at)
    return at if space is None else space.end()


def _bare(text: str) -> str:
    """Return the text without comments and stray commas; every other character is at its place."""
    blank = _SKIPPED.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)
    return _STRAY_COMMA.sub(lambda m: m[0] if m[0][0] == '"' else " ", blank)

"""Agents as Markdown files: a front matter with the agent's settings, and its instructions below.

A file is read, never run. A mistake in one is reported with its line, and the others load.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast._config import agent_folders, configuration
from holdfast.agent._context import plain_text
from holdfast.agent._limits import RunLimits
from holdfast.agent._mcp_servers import check_servers, servers_of
from holdfast.agent._options import SUSPEND, made
from holdfast.agent._tools import Tool, as_tools
from holdfast.errors import HoldfastError, UsageError
from holdfast.storage import Folder

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent

_ENDING = ".md"
_FILE_BYTES_MAX = 256 * 1024
_FILES_MAX = 500
_FENCE = "---"
_PERMISSIONS = ("ask", SUSPEND)
# The names of other tools for ours, and for models.
_ALIASES = {"Read": "read_file", "LS": "list_directory", "Glob": "list_directory"}
_SHORT_MODELS = ("inherit", "default", "sonnet", "opus", "haiku")
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
Tell = Callable[[str], None]


class AgentFileWarning(UserWarning):
    """A file of an agent, or a part of it, that cannot be used."""


class AgentFile(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as its file describes it."""

    name: str
    path: str
    instructions: str
    description: str = ""
    model: str | None = None
    """None for the default model."""
    tools: list[str] | None = None
    """The names of its tools; None for all."""
    delegates: list[str] = []
    """The names of agents that it may call, which have files too."""
    mcp_servers: list[str] | dict[str, Any] | None = None
    """Names of configured servers; a file of the user's own may also define servers, by name."""
    permission: str = "ask"
    """The approver of tool calls: "ask" the person at the screen, or "suspend" to let anybody answer later."""
    limits: RunLimits = RunLimits()
    notes: list[str] = []
    """The parts of the file that could not be used, each with its line."""

    def agent(
        self,
        model: Any = None,
        *,
        tools: Iterable[Any] = (),
        agents: Mapping[str, AgentFile] | None = None,
        **more: Any,
    ) -> Agent:
        """Return the agent with the ``tools`` that it may have; ``more`` is passed to ``Agent``.

        ``model`` is for a file that names none. Delegates are found among ``agents``, else among all that have files.
        """
        from holdfast.agent._agent import Agent

        model = self.model or model
        if model is None:
            raise UsageError(f"{self.path} names no model", remedy="Name one in the file, or give it here.")
        crew = Crew(load_agents() if agents is None and self.delegates else agents or {}, model)
        parts = {"name": self.name, "description": self.description, **crew.parts(self, as_tools(tools))}
        return Agent(model, **{**parts, **more})

    def servers(self, configured: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """Return its MCP servers: all configured ones, or those that it names, and its own."""
        if self.mcp_servers is None:
            return dict(configured)
        if isinstance(self.mcp_servers, dict):
            return self.mcp_servers
        return {name: configured[name] for name in _there(self, "MCP server", self.mcp_servers, configured, tell)}


def _there(file: AgentFile, what: str, names: Iterable[str], known: Container[str], tell: Tell) -> list[str]:
    """Return the names that are known; report the others."""
    found = []
    for name in dict.fromkeys(names):
        if name in known:
            found.append(name)
        else:
            tell(f"{file.path}: there is no {what} {name!r} here; {file.name} goes without it")
    return found


class Crew:
    """The agents that have files, as they are made: those without a model get a given one."""

    def __init__(
        self,
        agents: Mapping[str, AgentFile],
        model: Any,
        configured: Mapping[str, Any] | None = None,
        tell: Tell | None = None,
    ) -> None:
        self._agents = agents
        self._model = model
        self._configured = configured
        self._tell = tell or warn_of_file

    def parts(self, file: AgentFile, tools: Iterable[Tool], above: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the file's settings as ``Agent`` takes them; report names that do not exist."""
        known = {tool.name: tool for tool in tools}
        if file.tools is None:
            chosen = list(known)
        else:
            chosen = _there(file, "tool", (_ALIASES.get(name, name) for name in file.tools), known, self._tell)
        above = (*above, file.name)
        others = [name for name in file.delegates if name not in above]
        return {
            "instructions": file.instructions or None,
            "tools": [known[name] for name in chosen],
            "limits": file.limits,
            "delegates": [
                self.make(self._agents[name], known.values(), above)
                for name in _there(file, "agent", others, self._agents, self._tell)
            ],
            "mcp_servers": servers_of(file.servers(self._servers(), self._tell), self._tell) or (),
            **({"permission": SUSPEND} if file.permission == SUSPEND else {}),
        }

    def make(self, file: AgentFile, tools: Iterable[Tool], above: tuple[str, ...]) -> Agent:
        """Return an agent that another may call."""
        from holdfast.agent._agent import Agent

        parts = self.parts(file, tools, above)
        return Agent(file.model or self._model, name=file.name, description=file.description, **parts)

    def _servers(self) -> Mapping[str, Any]:
        if self._configured is None:
            self._configured = configuration().get("mcp_servers") or {}
        return self._configured


def warn_of_file(text: str) -> None:
    """Warn about the part of an agent's file that could not be used."""
    warnings.warn(text, AgentFileWarning, stacklevel=3)


def load_agents(folder: str | os.PathLike[str] | None = None, *, tell: Tell = warn_of_file) -> dict[str, AgentFile]:
    """Return the agents that have files, by name: of the project and of the user, or of one folder.

    A project's agent takes precedence over a user's of the same name. ``tell`` is called for unreadable files, with
    file and line; the others load.
    """
    found: dict[str, AgentFile] = {}
    folders = agent_folders() if folder is None else [(os.path.abspath(folder), True)]
    for place, own in folders:
        for path, text in _texts(place, tell, own=own):
            try:
                agent = read_agent_file(text, path, own=own)
            except UsageError as error:
                tell(f"{error.message}; the agent is left out")
                continue
            for note in agent.notes:
                tell(note)
            if agent.name in found and os.path.dirname(found[agent.name].path) == place:
                tell(f"{path}: there is an agent {agent.name!r} in this folder already; it is left out")
            found.setdefault(agent.name, agent)
    return found


def check_read(name: str, read: Iterable[AgentFile]) -> None:
    """Raise UsageError if a file named like an agent exists but was not read successfully."""
    known = {agent.path for agent in read}
    paths = [os.path.join(place, name + _ENDING) for place, _ in agent_folders()]
    if any(os.path.lexists(path) and path not in known for path in paths):
        raise UsageError(
            f"the agent {name} has a file that cannot be used", remedy="Mend the line that was named, or remove it."
        )


def _texts(place: str, tell: Tell, *, own: bool) -> Iterator[tuple[str, str]]:
    if not os.path.isdir(place):
        return
    folder = Folder(place)
    try:
        names = sorted(entry.name for entry in folder.names() if entry.name.endswith(_ENDING))
    except (HoldfastError, OSError) as error:
        tell(f"{place} cannot be read: {error}")
        return
    for name in names[:_FILES_MAX]:
        path = os.path.join(place, name)
        try:
            # The user's own symlinks are followed; a project's may come from a stranger, and lead anywhere.
            where, last = os.path.split(os.path.realpath(path)) if own and os.path.islink(path) else ("", name)
            source = Folder(where) if where else folder
            yield path, source.read(last, _FILE_BYTES_MAX).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            tell(f"{path}, line {line}: it is not UTF-8; the agent is left out")
        except (HoldfastError, OSError) as error:
            tell(f"{path} cannot be read: {error}; the agent is left out")


def read_agent_file(text: str, path: str, *, own: bool = True) -> AgentFile:
    """Return the agent that a file describes; only the user's ``own`` file may have programs started.

    Raises UsageError that names the line of a mistake; minor oddities are among the agent's notes.
    """
    found, body = _front_matter(text, path)
    given: dict[str, Any] = {}
    notes: list[str] = []
    for key, (line, value) in found.items():
        read = _MEMBERS.get(key)
        where = f"{path}, line {line}"
        if read is None:
            notes.append(f"{where}: {key!r} is not known here, and left out")
            continue
        try:
            taken = read(value)
        except (UsageError, TypeError, ValueError) as error:
            told = error.message if isinstance(error, UsageError) else str(error)
            raise UsageError(f"{where}: {key}: {told}") from None
        if key == "model" and taken in _SHORT_MODELS:
            taken = None
        if key == "mcp_servers" and isinstance(taken, dict) and not own:
            notes.append(
                f"{where}: a project's file starts no programs; put its MCP servers into your own configuration,"
                " and name them here"
            )
            taken = list(taken)
        given[key] = taken
    name = given.setdefault("name", os.path.basename(path).removesuffix(_ENDING))
    if not name.strip():
        raise UsageError(f"{path}, line {found['name'][0]}: name is empty")
    return AgentFile(path=path, instructions=plain_text(body).strip(), notes=notes, **given)


def _text(value: Any) -> str:
    if isinstance(value, list | dict) or value is None:
        raise UsageError("it is a text")
    return plain_text(str(value)).strip()


def _names(value: Any) -> list[str]:
    """Return a list of names, also if they are on one line with commas, as other tools write it."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError("it is a list of names")
    return value


def _servers(value: Any) -> list[str] | dict[str, Any]:
    if isinstance(value, dict):
        check_servers(value)
        return value
    return _names(value)


def _permission(value: Any) -> str:
    if value not in _PERMISSIONS:
        raise UsageError(f"it is one of {', '.join(_PERMISSIONS)}")
    return str(value)


_MEMBERS: dict[str, Callable[[Any], Any]] = {
    "name": _text,
    "description": _text,
    "model": _text,
    "tools": _names,
    "delegates": _names,
    "mcp_servers": _servers,
    "permission": _permission,
    "limits": lambda value: made("limits", RunLimits, value),
}


# The front matter: the subset of YAML that such files use. Text with colons in it stays text.
class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def _front_matter(text: str, path: str) -> tuple[dict[str, tuple[int, Any]], str]:
    """Return the values between the fences, each with its line, and the text after them. Raises UsageError."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise UsageError(f"{path}, line 1: it does not begin with a front matter ({_FENCE})")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise UsageError(f"{path}, line {len(lines)}: its front matter does not end ({_FENCE})")
    found: dict[str, tuple[int, Any]] = {}
    reader = _Reader(
        [_Line(n, len(one) - len(one.lstrip(" ")), one.rstrip()) for n, one in enumerate(lines[:end], 1)][1:]
    )
    try:
        for line, key, value in reader.members(0):
            if key in found:
                raise _Wrong(line, f"{key} is there twice")
            found[key] = line, value
    except _Wrong as error:
        raise UsageError(f"{path}, line {error.line}: {error}") from None
    return found, "\n".join(lines[end + 1 :])


class _Wrong(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class _Reader:
    """Reads a front matter top-down."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._at = 0

    def members(self, indent: int) -> Iterator[tuple[int, str, Any]]:
        """Read the members of a mapping whose keys are indented that deep, each with its line."""
        while (line := self._next()) is not None and line.indent >= indent:
            found = _KEY.match(line.text.strip())
            if line.indent != indent or found is None:
                raise _Wrong(line.number, f"this is no `key: value`: {line.text.strip()[:60]!r}")
            self._at += 1
            yield line.number, found[1], self._value(found[2] or "", indent, line.number)

    def _next(self) -> _Line | None:
        """Return the next line that is neither empty nor a comment."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if "\t" in line.text[: len(line.text) - len(line.text.lstrip())]:
                raise _Wrong(line.number, "tabs cannot indent; use blanks")
            if line.text.strip() and not line.text.lstrip().startswith("#"):
                return line
            self._at += 1
        return None

    def _value(self, text: str, indent: int, number: int) -> Any:
        if text[:1] in ("|", ">") and len(text) <= len("|-"):
            return self._block(indent, " " if text[0] == ">" else "\n")
        if text and not text.startswith("#"):
            # Text that continues on deeper lines is one text, as in YAML.
            more = self._block(indent, " ") if not text.startswith(("[", "{")) else ""
            return _scalar(f"{text} {more}".strip(), number)
        line = self._next()
        if line is None or line.indent < indent or (line.indent == indent and not _is_item(line)):
            return None
        if _is_item(line):
            return list(self._items(line.indent))
        return {key: value for _, key, value in self.members(line.indent)}

    def _items(self, indent: int) -> Iterator[Any]:
        while (line := self._next()) is not None and line.indent == indent and _is_item(line):
            self._at += 1
            yield _scalar(line.text.strip()[1:].strip(), line.number)

    def _block(self, indent: int, joint: str) -> str:
        taken: list[_Line] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text.strip() and line.indent <= indent:
                break
            taken.append(line)
            self._at += 1
        deep = min((line.indent for line in taken if line.text.strip()), default=0)
        return joint.join(line.text[deep:] for line in taken).strip()


def _is_item(line: _Line) -> bool:
    return line.text.strip() == "-" or line.text.strip().startswith("- ")


def _scalar(text: str, number: int) -> Any:
    if text[:1] in ("[", "{"):
        return _flow(text, number)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].replace("''", "'") if text[0] == "'" else _unescaped(text, number)
    text = re.sub(r"\s#.*\Z", "", text)
    if _NUMBER.match(text):
        return float(text) if "." in text else int(text)
    return {"true": True, "false": False, "null": None, "~": None}.get(text, text)


def _unescaped(text: str, number: int) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise _Wrong(number, "this text in quotes cannot be read") from None


def _flow(text: str, number: int) -> Any:
    """Parse ``[a, b]`` or JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        if text[0] == "[" and text[-1] == "]" and not re.search(r"[\[\]{}]", text[1:-1]):
            return [_scalar(part.strip(), number) for part in text[1:-1].split(",") if part.strip()]
        raise _Wrong(number, "this list or table cannot be read; write it as JSON, or over several lines") from None

"""The readers of all tools, in the order in which they are asked about a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.formats._foreign import Reader
    from holdfast.formats._source import Source
    from holdfast.formats._view import ExportOptions, Recorded

    Write = Callable[[Recorded, ExportOptions], Iterator[bytes]]

# Modules of `formats/readers/`, each with its READER, and where its tool keeps its sessions: globs below the home
# directory, so that looking for what there is loads no reader. The particular before the general.
READERS: dict[str, tuple[str, ...]] = {
    "oneringai": (".oneringai/agents",),
    "orbitmesh": (".orbitmesh",),
    "openagent_terminal": (".config/openagent-terminal/sessions",),
    "woodwork": (),
    "claude_code": (
        ".claude/projects/*/*.jsonl",
        ".claude/projects/*/*/subagents/*.jsonl",
        ".config/claude/projects/*/*.jsonl",
    ),
    "codex": (
        ".codex/sessions/**/rollout-*.jsonl",
        ".codex/sessions/**/rollout-*.jsonl.zst",
        ".codex/archived_sessions/rollout-*.jsonl*",
    ),
    "gemini_cli": (".gemini/tmp/*/chats/session-*.jsonl", ".gemini/tmp/*/chats/session-*.json"),
    "qwen": (".qwen/projects/*/chats/*.jsonl", ".qwen/tmp/*/chats/*.jsonl"),
    "pi": (".pi/agent/sessions/*/*.jsonl",),
    "copilot_cli": (".copilot/session-state/*/events.jsonl", ".copilot/session-state/*.jsonl"),
    "acpx": (".acpx/sessions",),
    "cline": (
        ".cline/data/sessions/*/*.messages.json",
        ".cline/data/tasks/*/api_conversation_history.json",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
        "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/*/*.json",
    ),
    "opencode": (".local/share/opencode/opencode*.db", ".local/share/opencode/storage"),
    "goose": (".local/share/goose/sessions/sessions.db", ".local/share/goose/sessions/*.jsonl"),
    "aider": (".aider.chat.history.md", "*/.aider.chat.history.md", "*/*/.aider.chat.history.md"),
    "event_folder": (".agent-sessions/*/events.jsonl",),
    "messages": (),
}
GENERAL = "messages"
HOMES = {
    "ORBITMESH_BASE_DIR": ".orbitmesh",
    "CLAUDE_CONFIG_DIR": ".claude",
    "CODEX_HOME": ".codex",
    "QWEN_HOME": ".qwen",
    "PI_CODING_AGENT_DIR": ".pi/agent",
    "COPILOT_HOME": ".copilot",
    "CLINE_DATA_DIR": ".cline/data",
    "CLINE_DIR": ".cline",
    "XDG_DATA_HOME": ".local/share",
}
"""Environment variables by which people move directories of tools."""


def all_readers() -> tuple[Reader, ...]:
    """Return every reader, loaded now."""
    return tuple(reader_of(name) for name in READERS)


def reader_of(tool: str) -> Reader:
    """Return the reader of a tool by its name. Raises UsageError, with the known names, if there is none."""
    reader: Reader = import_module(f"holdfast.formats.readers.{_module_of(tool)}").READER
    return reader


def places_of(tool: str) -> tuple[str, ...]:
    """Return where a tool keeps its sessions: globs below the home directory. Raises UsageError as ``reader_of``."""
    return READERS[_module_of(tool)]


def _module_of(tool: str) -> str:
    name = tool.replace("-", "_") if isinstance(tool, str) else ""
    if name in READERS:
        return name
    known = ", ".join(sorted(READERS)).replace("_", "-")
    raise UsageError(f"there is no reader for {tool!r}", remedy=f"Use 'auto', or one of: {known}.")


def reader_for(source: Source, *, general: bool = True) -> Reader | None:
    """Return the first reader that claims the source, or None; ``general``: also plain message lists."""
    names = (name for name in READERS if general or name != GENERAL)
    return next((reader for name in names if claims(reader := reader_of(name), source)), None)


def claims(reader: Reader, source: Source) -> bool:
    """Return whether a reader claims the source; a file that crashes it is not its own."""
    try:
        # A foreign file may be anything: it may crash one reader and be another's.
        return reader.claims(source)
    except (HoldfastError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


# The formats in which a session can be written, by name.
class Format(NamedTuple):
    """One format: its purpose, the suffix of its files, and its writer."""

    name: str
    about: str
    suffix: str
    writer: str  # module and function, loaded when they are needed
    is_text: bool = True

    @property
    def is_native(self) -> bool:
        """True if another tool accepts such files as its own."""
        return self.name in NATIVE

    def write(self, recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
        """Yield the session in this format, piece by piece."""
        module, _, name = self.writer.partition(":")
        found = getattr(import_module(f"holdfast.formats.writers.{module}"), name)
        write: Write = found(self.name) if self.writer == _MESSAGES else found
        return write(recorded, options)


_MESSAGES = "json:writer_of_messages"
NATIVE = ("claude-code", "codex", "gemini-cli", "opencode")
_ALL = (
    Format("markdown", "a document for people", ".md", "markdown:write_markdown"),
    Format("html", "one page that needs nothing else", ".html", "html:write_html"),
    Format("text", "plain text", ".txt", "markdown:write_text"),
    Format("json", "one document with everything", ".json", "json:write_json"),
    Format("jsonl", "the log's own lines", ".jsonl", "json:write_jsonl"),
    Format("bundle", "the session itself, to be moved", ".holdfast", "json:write_bundle", is_text=False),
    Format("claude-code", "for Claude Code", ".jsonl", "claude_code:write_claude_code"),
    Format("codex", "for Codex", ".jsonl", "codex:write_codex"),
    Format("gemini-cli", "for Gemini CLI", ".json", "gemini_cli:write_gemini_cli"),
    Format("opencode", "for opencode", ".json", "opencode:write_opencode"),
    Format("openagent-terminal", "for OpenAgent-Terminal", ".json", "openagent_terminal:write_openagent_terminal"),
    Format("neutral", "messages in neutral form", ".json", _MESSAGES),
    Format("anthropic", "messages for Anthropic", ".json", _MESSAGES),
    Format("openai", "messages for OpenAI's chat completions", ".json", _MESSAGES),
    Format("openai-responses", "items for OpenAI's responses", ".json", _MESSAGES),
    Format("gemini", "contents for Gemini", ".json", _MESSAGES),
    Format("mistral", "messages for Mistral", ".json", _MESSAGES),
    Format("pydantic-ai", "messages for Pydantic AI", ".json", _MESSAGES),
)
FORMATS: Mapping[str, Format] = {one.name: one for one in _ALL}
_SHORT = {"md": "markdown", "txt": "text", "holdfast": "bundle", "claude": "claude-code"}


def format_of(name: str) -> Format:
    """Return the format of this name. Raises UsageError, with the known names, for another."""
    found = FORMATS.get(_SHORT.get(name, name)) if isinstance(name, str) else None
    if found is None:
        raise UsageError(f"there is no format {name!r} to export to", remedy=f"One of: {', '.join(FORMATS)}.")
    return found

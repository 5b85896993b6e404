"""Tools that come with Holdfast: memory, variables, todos, files to read, past sessions."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.agent._context import ToolContext
from holdfast.agent._tools import Tool
from holdfast.errors import UsageError
from holdfast.model import SessionMetadata
from holdfast.replay import recover_todos
from holdfast.storage import Folder

ENTRY_BYTES_MAX = 64 * 1024
MEMORY_BYTES_MAX = 1024 * 1024
_FILE_BYTES_MAX = 1024 * 1024
_SESSIONS_SCANNED_MAX = 200
_HITS_MAX = 10
_SNIPPET_CHARS = 160


def builtin_tools(root: str | None = None, *, memory: bool = True) -> list[Tool]:
    """Return all built-in tools; those that read files only with a ``root``, which they cannot leave."""
    tools = [todo_tool(), Tool(set_variable), Tool(get_variable, read_only=True), Tool(recall_sessions, read_only=True)]
    if memory:
        tools += memory_tools()
    if root is not None:
        tools += file_tools(root)
    return tools


def remember(  # noqa: PLR0917 - the model names its arguments
    ctx: ToolContext,
    key: str,
    value: Any,
    description: str = "",
    scope: Literal["session", "persistent"] = "session",
    priority: Literal["low", "normal", "high", "critical"] = "normal",
) -> str:
    """Remember something for later.

    Args:
        key: A short name.
        value: What to remember: a text, a number, a list or an object.
        description: One sentence that says what it is.
        scope: "session" for this conversation, "persistent" for all of yours.
        priority: How important it is.
    """
    size = len(str(value).encode("utf-8", "replace"))
    if size > ENTRY_BYTES_MAX:
        raise UsageError(f"that has {size:,} bytes; one entry has at most {ENTRY_BYTES_MAX:,}")
    earlier = ctx.memory.entry(key)
    total = ctx.memory.stats()["total_size_bytes"] - (earlier.size_bytes if earlier else 0)
    if total + size > MEMORY_BYTES_MAX:
        raise UsageError("the memory is full; forget something first")
    ctx.memory.set(key, value, description=description, scope=scope, priority=priority)
    return f"remembered {key}"


def recall(ctx: ToolContext, key: str = "") -> Any:
    """Read what you remember.

    Args:
        key: The name of one entry; without it you get the list of all.
    """
    if key:
        entry = ctx.memory.entry(key)
        return f"nothing is remembered under {key}" if entry is None else entry.value
    found = ctx.memory.entries()
    return {name: entry.description for name, entry in found.items()} or "nothing yet"


def forget(ctx: ToolContext, key: str) -> str:
    """Forget what you remember under a name.

    Args:
        key: The name of the entry.
    """
    return f"forgot {key}" if ctx.memory.delete(key) else f"nothing was remembered under {key}"


def memory_tools() -> list[Tool]:
    """Return the tools ``remember``, ``recall`` and ``forget``."""
    return [Tool(remember), Tool(recall, read_only=True), Tool(forget)]


def set_variable(ctx: ToolContext, name: str, value: Any) -> str:
    """Set a variable of this conversation.

    Args:
        name: Its name.
        value: Its value: a text, a number, a list or an object.
    """
    ctx.variables[name] = value
    return f"{name} is set"


def get_variable(ctx: ToolContext, name: str = "") -> Any:
    """Read a variable of this conversation.

    Args:
        name: Its name; without it you get all of them.
    """
    if name:
        return ctx.variables.get(name, f"there is no variable {name}")
    return dict(ctx.variables)


def todo_write(ctx: ToolContext, todos: list[dict[str, Any]]) -> Any:
    """Write your todo list: always the whole list, which replaces the one before.

    Args:
        todos: Items with content, status (pending, in_progress or completed), activeForm, and
            optionally priority (high, medium or low). At most one is in progress; no two alike.
    """
    try:
        return {"todos": ctx.todos.write(todos)}
    except UsageError:
        _keep_todos(ctx)
        raise


def _keep_todos(ctx: ToolContext) -> None:
    """Restore the list from before a call that did not count: the call is in the log, where the last list wins."""
    others = (event for event in ctx.session.events() if event.data.get("id") != ctx.call_id)
    ctx.session.append("todo_update", {"todos": recover_todos(others)})


def todo_tool() -> Tool:
    """Return the tool ``TodoWrite``: each call records the list, and the last one counts."""
    return Tool(todo_write, name="TodoWrite", on_refused=_keep_todos)


def file_tools(root: str) -> list[Tool]:
    """Return the tools ``read_file`` and ``list_directory`` for one directory; each call asks for permission."""
    folder = Folder(root)

    def read_file(path: str) -> str:
        """Read a text file.

        Args:
            path: Its path, from the top of the project.
        """
        data = folder.read(path, _FILE_BYTES_MAX)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise UsageError(f"the file is not text: {len(data):,} bytes of something else") from None

    def list_directory(path: str = ".") -> list[str]:
        """List a directory; the names of directories end with a slash.

        Args:
            path: Its path, from the top of the project.
        """
        return [entry.name + "/" * entry.is_directory for entry in folder.names(path)]

    options: dict[str, Any] = {"read_only": True, "needs_permission": True, "namespace": "files"}
    return [Tool(read_file, **options), Tool(list_directory, **options)]


def recall_sessions(ctx: ToolContext, query: str) -> Any:
    """Search your past conversations.

    Args:
        query: Words that must all occur in the title or in one message.
    """
    words = query.casefold().split()
    if ctx.hf is None or not words:
        return "there are no past conversations to search"
    hits = []
    for row in ctx.hf.list(limit=_SESSIONS_SCANNED_MAX, agent_id=ctx.session.agent_id):
        if row.session_id != ctx.session.id:
            hits += _hits(ctx, row, words)
        if len(hits) >= _HITS_MAX:
            break
    return hits[:_HITS_MAX] or f"nothing about {query} was found"


def _hits(ctx: ToolContext, row: SessionMetadata, words: list[str]) -> list[dict[str, Any]]:
    assert ctx.hf is not None
    known = {"session": row.session_id, "title": row.title}
    if _matches(row.title or "", words):
        return [known]
    found = []
    for event in ctx.hf.events(row.session_id, types=("user", "assistant")):
        text = event.data.get("content")
        if isinstance(text, str) and _matches(text, words):
            start = max(text.casefold().find(words[0]) - _SNIPPET_CHARS // 4, 0)
            snippet = " ".join(text[start : start + _SNIPPET_CHARS].split())
            found.append({**known, "role": event.type, "text": snippet})
    return found[:3]


def _matches(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)

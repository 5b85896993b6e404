"""The typed form of every event type: which members it has and what they hold.

Members that a type does not name are ignored here and survive in the recorded bytes. Names of the
conversation and agent-life groups follow the recorded logs that Holdfast opens as they are, hence
``toolCallId``.
"""

from __future__ import annotations

from typing import Any

import msgspec

Content = str | list[Any]


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """What all bodies share: optional extras that any event may carry."""

    metadata: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    raw: Any = None


class User(_Body, frozen=True, kw_only=True):
    content: Content
    role: str = "user"
    agent: str | None = None


class Assistant(_Body, frozen=True, kw_only=True):
    content: Content
    role: str = "assistant"
    agent: str | None = None
    model: str | None = None
    covers_from: int | None = None


class System(_Body, frozen=True, kw_only=True):
    content: Content
    agent: str | None = None


class Thinking(_Body, frozen=True, kw_only=True):
    content: Content
    signature: str | None = None
    agent: str | None = None
    covers_from: int | None = None


class ToolCall(_Body, frozen=True, kw_only=True):
    id: str
    tool: str
    params: Any = None
    agent: str | None = None
    amends: bool = False


class ToolResult(_Body, frozen=True, kw_only=True):
    toolCallId: str  # noqa: N815 - the name in recorded logs
    result: Any = None
    is_error: bool = False


class Delta(_Body, frozen=True, kw_only=True):
    content: str
    kind: str = "text"
    agent: str | None = None


class Retracted(_Body, frozen=True, kw_only=True):
    seqs: list[int]
    replacement: Any = None


class TurnStart(_Body, frozen=True, kw_only=True):
    turn: int | str | None = None


class TurnEnd(_Body, frozen=True, kw_only=True):
    turn: int | str | None = None
    reason: str = "completed"


class AgentStart(_Body, frozen=True, kw_only=True):
    agent: str
    parent: str | None = None
    task: Any = None
    depth: int | None = None


class AgentIteration(_Body, frozen=True, kw_only=True):
    agent: str
    iteration: int | None = None


class AgentComplete(_Body, frozen=True, kw_only=True):
    agent: str
    duration: float | None = None


class AgentError(_Body, frozen=True, kw_only=True):
    agent: str
    error: Any = None


class Delegation(_Body, frozen=True, kw_only=True):
    parent: str
    child: str
    task: Any = None


class DelegationComplete(_Body, frozen=True, kw_only=True):
    parent: str
    child: str
    result: Any = None


class Suspended(_Body, frozen=True, kw_only=True):
    reason: str | None = None
    token: str | None = None


class Resumed(_Body, frozen=True, kw_only=True):
    reason: str | None = None


class VariableSet(_Body, frozen=True, kw_only=True):
    name: str
    value: Any = None


class VariableDelete(_Body, frozen=True, kw_only=True):
    name: str


class MemorySet(_Body, frozen=True, kw_only=True):
    key: str
    value: Any = None
    description: str = ""
    scope: str = "session"
    priority: str = "normal"
    pinned: bool = False
    sizeBytes: int | None = None  # noqa: N815 - the name in recorded logs


class MemoryDelete(_Body, frozen=True, kw_only=True):
    key: str


class TodoUpdate(_Body, frozen=True, kw_only=True):
    todos: list[Any]


class PluginState(_Body, frozen=True, kw_only=True):
    name: str
    state: Any = None
    version: int | str | None = None


class Permission(_Body, frozen=True, kw_only=True):
    tool: str | None = None
    call: str | None = None
    decision: str | None = None
    scope: str | None = None
    expires_at: int | None = None


class Tools(_Body, frozen=True, kw_only=True):
    enabled: dict[str, Any] | None = None
    namespaces: dict[str, Any] | None = None
    priorities: dict[str, Any] | None = None


class Instructions(_Body, frozen=True, kw_only=True):
    content: str | None = None


class Config(msgspec.Struct, frozen=True):
    """A free map; read it from ``data``."""


class Task(_Body, frozen=True, kw_only=True):
    task: Any = None


class Usage(_Body, frozen=True, kw_only=True):
    input_tokens: int = 0
    output_tokens: int = 0


class Metadata(msgspec.Struct, frozen=True):
    """A free map; read it from ``data``."""


class SessionStart(_Body, frozen=True, kw_only=True):
    format: int = 0
    log: str | None = None
    generation: int = 0
    agent_id: str | None = None
    agent_type: str | None = None
    provider_type: str | None = None
    parent: str | None = None
    parent_seq: int | None = None


class Opened(_Body, frozen=True, kw_only=True):
    epoch: int = 0
    version: str | None = None
    pid: int | None = None
    host: str | None = None
    salt: str | None = None


class Closed(_Body, frozen=True, kw_only=True):
    reason: str | None = None


class Title(_Body, frozen=True, kw_only=True):
    title: str | None = None
    auto: bool = False


class Tag(_Body, frozen=True, kw_only=True):
    tag: str


class Link(_Body, frozen=True, kw_only=True):
    kind: str
    id: str


class Compaction(_Body, frozen=True, kw_only=True):
    summary: Content
    covers: list[int]


class Forked(_Body, frozen=True, kw_only=True):
    """The events before this one are another session's, up to its ``seq``."""

    session: str | None = None
    seq: int | None = None
    root: str | None = None
    log: str | None = None
    reason: str | None = None


class Merged(_Body, frozen=True, kw_only=True):
    """Turns and state of another session were brought in before this event."""

    session: str | None = None
    seq: int | None = None
    log: str | None = None
    base: int | None = None
    turns: str | None = None
    merged_turns: int | None = None
    policy: str | None = None
    conflicts: list[Any] = []
    taken: list[str] = []
    copies: list[Any] = []


class Imported(_Body, frozen=True, kw_only=True):
    format: str | None = None
    source: str | None = None


class Interrupted(_Body, frozen=True, kw_only=True):
    turn: int | str | None = None
    calls: list[str] = []
    not_run: list[str] = []
    reason: str | None = None


class Redacted(_Body, frozen=True, kw_only=True):
    generation: int = 0
    seqs: list[int] = []
    found: dict[str, Any] = {}
    unscanned: int = 0


class Repaired(_Body, frozen=True, kw_only=True):
    generation: int = 0
    gaps: list[Any] = []


class Frame(_Body, frozen=True, kw_only=True):
    direction: str
    frame: Any = None


CONVERSATION_TYPES: dict[str, type[msgspec.Struct]] = {
    "user": User,
    "assistant": Assistant,
    "system": System,
    "thinking": Thinking,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "delta": Delta,
    "retracted": Retracted,
}

BODIES: dict[str, type[msgspec.Struct]] = CONVERSATION_TYPES | {
    "turn_start": TurnStart,
    "turn_end": TurnEnd,
    "agent_start": AgentStart,
    "agent_iteration": AgentIteration,
    "agent_complete": AgentComplete,
    "agent_error": AgentError,
    "delegation": Delegation,
    "delegation_complete": DelegationComplete,
    "suspended": Suspended,
    "resumed": Resumed,
    "variable_set": VariableSet,
    "variable_delete": VariableDelete,
    "memory_set": MemorySet,
    "memory_delete": MemoryDelete,
    "todo_update": TodoUpdate,
    "plugin_state": PluginState,
    "permission": Permission,
    "tools": Tools,
    "instructions": Instructions,
    "config": Config,
    "task": Task,
    "usage": Usage,
    "metadata": Metadata,
    "session_start": SessionStart,
    "opened": Opened,
    "closed": Closed,
    "title": Title,
    "tag": Tag,
    "untag": Tag,
    "link": Link,
    "compaction": Compaction,
    "forked": Forked,
    "merged": Merged,
    "imported": Imported,
    "interrupted": Interrupted,
    "redacted": Redacted,
    "repaired": Repaired,
    "frame": Frame,
}

"""Pure folds: events to state, and events to a conversation that a provider accepts.

Nothing here touches a file, a clock or a source of randomness: same events in, same values out.
"""

from __future__ import annotations

from holdfast.replay._conversation import Conversation, RunConversation, runs
from holdfast.replay._fold import Fold, fold
from holdfast.replay._state import (
    Approval,
    LoadBlob,
    MemoryEntry,
    MemoryStats,
    Opening,
    Parent,
    PendingCall,
    Permissions,
    PluginState,
    State,
    Status,
    Tokens,
    ToolState,
    Turning,
    Usage,
    read_variable,
)
from holdfast.replay._status import needs_interruption, status_of
from holdfast.replay._todos import TODO_TOOLS, read_todos
from holdfast.replay._upcast import STEPS, Step, check_format, format_of, upcast, upcast_event

__all__ = [
    "STEPS",
    "TODO_TOOLS",
    "Approval",
    "Conversation",
    "Fold",
    "LoadBlob",
    "MemoryEntry",
    "MemoryStats",
    "Opening",
    "Parent",
    "PendingCall",
    "Permissions",
    "PluginState",
    "RunConversation",
    "State",
    "Status",
    "Step",
    "Tokens",
    "ToolState",
    "Turning",
    "Usage",
    "check_format",
    "fold",
    "format_of",
    "needs_interruption",
    "read_todos",
    "read_variable",
    "runs",
    "status_of",
    "upcast",
    "upcast_event",
]

"""The agent: a session that an agent lives in.

Names load on first use, because the model engine behind them is slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._attempts import Attempt, attempts
    from holdfast.agent._builtin import builtin_tools, file_tools, memory_tools, todo_tool
    from holdfast.agent._context import Suspend, ToolContext
    from holdfast.agent._engine import register_model, resolve_model
    from holdfast.agent._event_logger import EventLogger
    from holdfast.agent._home import RepairedWarning
    from holdfast.agent._options import Features, PersistentSession
    from holdfast.agent._permissions import Decision, PermissionRequest
    from holdfast.agent._plugins import Plugin, PluginWarning
    from holdfast.agent._reply import Usage
    from holdfast.agent._result import RunResult, RunStream
    from holdfast.agent._suspension import Suspension
    from holdfast.agent._tools import Tool, tool

_PLACES = {
    "Agent": "_agent",
    "Attempt": "_attempts",
    "Decision": "_permissions",
    "EventLogger": "_event_logger",
    "Features": "_options",
    "PermissionRequest": "_permissions",
    "PersistentSession": "_options",
    "Plugin": "_plugins",
    "PluginWarning": "_plugins",
    "RepairedWarning": "_home",
    "RunResult": "_result",
    "RunStream": "_result",
    "Suspend": "_context",
    "Suspension": "_suspension",
    "Tool": "_tools",
    "ToolContext": "_context",
    "Usage": "_reply",
    "attempts": "_attempts",
    "builtin_tools": "_builtin",
    "file_tools": "_builtin",
    "memory_tools": "_builtin",
    "register_model": "_engine",
    "resolve_model": "_engine",
    "todo_tool": "_builtin",
    "tool": "_tools",
}

__all__ = [
    "Agent",
    "Attempt",
    "Decision",
    "EventLogger",
    "Features",
    "PermissionRequest",
    "PersistentSession",
    "Plugin",
    "PluginWarning",
    "RepairedWarning",
    "RunResult",
    "RunStream",
    "Suspend",
    "Suspension",
    "Tool",
    "ToolContext",
    "Usage",
    "attempts",
    "builtin_tools",
    "file_tools",
    "memory_tools",
    "register_model",
    "resolve_model",
    "todo_tool",
    "tool",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)

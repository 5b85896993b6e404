"""The agent: a session that an agent lives in.

Names load on first use, because the model engine behind them is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._builtin import builtin_tools, file_tools, memory_tools, todo_tool
    from holdfast.agent._context import Suspend, ToolContext, plain_result, plain_text
    from holdfast.agent._engine import Engine, register_model, resolve_model
    from holdfast.agent._event_logger import EventLogger
    from holdfast.agent._kit import (
        AGENT_TYPE,
        AgentHome,
        AgentMaker,
        Kit,
        ModelChoice,
        RepairedWarning,
        choose_model,
        needs_agent,
    )
    from holdfast.agent._options import Features, PersistentSession, Scope, Strategy
    from holdfast.agent._permissions import Decision, PermissionRequest
    from holdfast.agent._result import Ask, RunResult, RunStream, Suspension, Usage
    from holdfast.agent._run_log import Attempt, attempts, is_child
    from holdfast.agent._spec import Plugin, PluginWarning
    from holdfast.agent._tools import Tool, tool
    from holdfast.agent.commands import fork_seq, offered_commands, read_command
    from holdfast.agent.host import Host, HostedTurn, Message, Question
    from holdfast.agent.runtime import EXIT_WORDS, Runtime

__getattr__ = lazy(
    __name__,
    {
        "_agent": "Agent",
        "_builtin": "builtin_tools file_tools memory_tools todo_tool",
        "_context": "Suspend ToolContext plain_result plain_text",
        "_engine": "Engine register_model resolve_model",
        "_event_logger": "EventLogger",
        "_kit": ("AGENT_TYPE AgentHome AgentMaker Kit ModelChoice RepairedWarning choose_model needs_agent"),
        "_options": "Features PersistentSession Scope Strategy",
        "_permissions": "Decision PermissionRequest",
        "_result": "Ask RunResult RunStream Suspension Usage",
        "_run_log": "Attempt attempts is_child",
        "_spec": "Plugin PluginWarning",
        "_tools": "Tool tool",
        "commands": "fork_seq offered_commands read_command",
        "host": "Host HostedTurn Message Question",
        "runtime": "EXIT_WORDS Runtime",
    },
)

__all__ = [
    "AGENT_TYPE",
    "EXIT_WORDS",
    "Agent",
    "AgentHome",
    "AgentMaker",
    "Ask",
    "Attempt",
    "Decision",
    "Engine",
    "EventLogger",
    "Features",
    "Host",
    "HostedTurn",
    "Kit",
    "Message",
    "ModelChoice",
    "PermissionRequest",
    "PersistentSession",
    "Plugin",
    "PluginWarning",
    "Question",
    "RepairedWarning",
    "RunResult",
    "RunStream",
    "Runtime",
    "Scope",
    "Strategy",
    "Suspend",
    "Suspension",
    "Tool",
    "ToolContext",
    "Usage",
    "attempts",
    "builtin_tools",
    "choose_model",
    "file_tools",
    "fork_seq",
    "is_child",
    "memory_tools",
    "needs_agent",
    "offered_commands",
    "plain_result",
    "plain_text",
    "read_command",
    "register_model",
    "resolve_model",
    "todo_tool",
    "tool",
]

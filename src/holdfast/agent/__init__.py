"""The agent: a session that an agent lives in.

Names load on first use, because the model engine behind them is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._attempts import Attempt, attempts
    from holdfast.agent._builtin import builtin_tools, file_tools, memory_tools, todo_tool
    from holdfast.agent._context import Suspend, ToolContext
    from holdfast.agent._engine import Engine, register_model, resolve_model
    from holdfast.agent._event_logger import EventLogger
    from holdfast.agent._home import AgentHome, RepairedWarning
    from holdfast.agent._kit import AGENT_TYPE, AgentMaker, Kit, needs_agent
    from holdfast.agent._models import ModelChoice, choose_model
    from holdfast.agent._options import Features, PersistentSession
    from holdfast.agent._permissions import Decision, PermissionRequest
    from holdfast.agent._plugins import Plugin, PluginWarning
    from holdfast.agent._reply import Ask, Usage
    from holdfast.agent._result import RunResult, RunStream
    from holdfast.agent._run_log import is_child
    from holdfast.agent._suspension import Suspension
    from holdfast.agent._tool_results import plain_result, plain_text
    from holdfast.agent._tools import Tool, tool
    from holdfast.agent.commands import fork_seq, offered_commands, read_command
    from holdfast.agent.host import Host, HostedTurn, Message, Question, Scope
    from holdfast.agent.runtime import EXIT_WORDS, Runtime

__getattr__ = lazy(
    __name__,
    {
        "_agent": "Agent",
        "_attempts": "Attempt attempts",
        "_builtin": "builtin_tools file_tools memory_tools todo_tool",
        "_context": "Suspend ToolContext",
        "_engine": "Engine register_model resolve_model",
        "_event_logger": "EventLogger",
        "_home": "AgentHome RepairedWarning",
        "_kit": "AGENT_TYPE AgentMaker Kit needs_agent",
        "_models": "ModelChoice choose_model",
        "_options": "Features PersistentSession",
        "_permissions": "Decision PermissionRequest",
        "_plugins": "Plugin PluginWarning",
        "_reply": "Ask Usage",
        "_result": "RunResult RunStream",
        "_run_log": "is_child",
        "_suspension": "Suspension",
        "_tool_results": "plain_result plain_text",
        "_tools": "Tool tool",
        "commands": "fork_seq offered_commands read_command",
        "host": "Host HostedTurn Message Question Scope",
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

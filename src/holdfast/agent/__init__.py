"""The agent: a session that an agent lives in.

Names load on first use, because the model engine behind them is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._agent_files import AgentFile, AgentFileWarning, load_agents
    from holdfast.agent._builtin import builtin_tools, file_tools, memory_tools, todo_tool
    from holdfast.agent._context import Suspend, ToolContext, plain_result, plain_text
    from holdfast.agent._engine import Engine, LateModel, engine_of, register_model, resolve_model
    from holdfast.agent._event_logger import EventLogger
    from holdfast.agent._kit import AGENT_TYPE, AgentHome, AgentMaker, Kit, RepairedWarning
    from holdfast.agent._limits import RunLimits
    from holdfast.agent._mcp_servers import McpServer, McpServers, McpServerWarning, can_use_servers
    from holdfast.agent._model_choice import ModelChoice, choose_model
    from holdfast.agent._options import Features, PersistentSession, Scope, Strategy
    from holdfast.agent._permissions import Decision, PermissionRequest
    from holdfast.agent._result import Ask, Reply, RunResult, RunStream, Suspension, Usage
    from holdfast.agent._run_log import Attempt, attempts, is_child
    from holdfast.agent._spec import Plugin, PluginWarning
    from holdfast.agent._tools import Tool, tool
    from holdfast.agent._turn import can_go_on
    from holdfast.agent.commands import fork_seq, offered_commands, read_command, usage_text
    from holdfast.agent.host import Host, HostedTurn, Message
    from holdfast.agent.runtime import EXIT_WORDS, Runtime, Wakes

__getattr__ = lazy(
    __name__,
    {
        "_agent": "Agent",
        "_agent_files": "AgentFile AgentFileWarning load_agents",
        "_builtin": "builtin_tools file_tools memory_tools todo_tool",
        "_context": "Suspend ToolContext plain_result plain_text",
        "_engine": "Engine LateModel engine_of register_model resolve_model",
        "_event_logger": "EventLogger",
        "_kit": "AGENT_TYPE AgentHome AgentMaker Kit RepairedWarning",
        "_model_choice": "ModelChoice choose_model",
        "_limits": "RunLimits",
        "_mcp_servers": "McpServer McpServerWarning McpServers can_use_servers",
        "_options": "Features PersistentSession Scope Strategy",
        "_permissions": "Decision PermissionRequest",
        "_result": "Ask Reply RunResult RunStream Suspension Usage",
        "_run_log": "Attempt attempts is_child",
        "_spec": "Plugin PluginWarning",
        "_tools": "Tool tool",
        "_turn": "can_go_on",
        "commands": "fork_seq offered_commands read_command usage_text",
        "host": "Host HostedTurn Message",
        "runtime": "EXIT_WORDS Runtime Wakes",
    },
)

# The agent, its parts and its results.
__all__ = ["Agent", "Features", "PersistentSession", "RunLimits", "Strategy"]
__all__ += [
    "Ask",
    "Attempt",
    "Engine",
    "Reply",
    "RunResult",
    "RunStream",
    "Suspension",
    "Usage",
    "Wakes",
    "attempts",
    "is_child",
]
__all__ += ["Decision", "PermissionRequest", "Plugin", "PluginWarning", "Scope"]
__all__ += ["Suspend", "Tool", "ToolContext", "plain_result", "plain_text", "tool"]
__all__ += ["AgentFile", "AgentFileWarning", "load_agents"]
__all__ += ["McpServer", "McpServerWarning", "McpServers", "can_use_servers"]
__all__ += ["builtin_tools", "file_tools", "memory_tools", "todo_tool"]
# What apps make agents from, and where they run them.
__all__ += ["AGENT_TYPE", "AgentHome", "AgentMaker", "Kit", "RepairedWarning"]
__all__ += ["LateModel", "ModelChoice", "choose_model", "engine_of", "register_model", "resolve_model"]
__all__ += ["EXIT_WORDS", "EventLogger", "Host", "HostedTurn", "Message", "Runtime"]
__all__ += ["can_go_on", "fork_seq", "offered_commands", "read_command", "usage_text"]

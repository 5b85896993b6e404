"""One agent gives another a task. The child's words stand in the same log, under its own run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from holdfast.agent._run_log import RunLog, new_run
from holdfast.agent._spec import Activity, Spec
from holdfast.agent._tools import Tool
from holdfast.errors import AgentError, HoldfastError, UsageError

DEPTH_MAX = 8
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def delegate_tools(spec: Spec, parent: Callable[[], Activity]) -> tuple[Tool, ...]:
    """A tool for each agent that this one may call."""
    return tuple(_delegate_tool(child, parent) for child in spec.delegates)


def check_delegates(spec: Spec) -> None:
    """Raises UsageError if two delegates, or a delegate and a tool, would be called alike."""
    names = [tool.name for tool in spec.tools] + [tool_name(each.name) for each in spec.delegates]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(
            f"two things that {spec.name} may call have the name {twice[0]!r}",
            remedy="Give each delegate a name of its own.",
        )


def _delegate_tool(child: Spec, parent: Callable[[], Activity]) -> Tool:
    async def ask(task: str) -> str:
        return await delegate(parent(), child, task)

    about = child.description or f"Give a task to the agent {child.name}."
    schema = {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "All that it needs to know."}},
        "required": ["task"],
        "additionalProperties": False,
    }
    return Tool(ask, name=tool_name(child.name), description=about, schema=schema)


def tool_name(agent: str) -> str:
    """The name of the tool by which an agent is called."""
    return "ask_" + _UNFIT.sub("_", agent)[:60]


async def delegate(parent: Activity, child: Spec, task: str) -> str:
    """Let the child do the task, in the parent's session; what it answers."""
    if not isinstance(task, str) or not task.strip():
        raise UsageError(f"a task for {child.name} is a text that is not empty")
    if parent.depth + 1 > DEPTH_MAX:
        raise AgentError(f"agents called each other {DEPTH_MAX} deep")
    run = new_run(child=True)
    note = {"parent": parent.spec.name, "child": child.name, "task": task, "child_run": run}
    parent.talk.append("delegation", note)
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    activity = _activity(parent, child, talk)
    talk.append("agent_start", _start(parent, child, task))
    talk.user(task, agent=child.name, parent=parent.spec.name)
    output = await _finish(activity)
    done = {"parent": parent.spec.name, "child": child.name, "child_run": run, "result": output}
    parent.talk.append("delegation_complete", done)
    return output


async def resume_child(parent: Activity, child: Spec, run: str) -> str:
    """Go on with a child's run that an earlier process left, from its own part of the log."""
    events = list(parent.talk.session.events())
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    talk.replay(events)
    if not talk.messages():
        raise UsageError(f"there is no run {run} of {child.name} in this session")
    activity = _activity(parent, child, talk)
    talk.append("agent_start", {**_start(parent, child, None), "resumed": True})
    return await _finish(activity)


def _start(parent: Activity, child: Spec, task: str | None) -> dict[str, object]:
    start: dict[str, object] = {
        "agent": child.name,
        "parent": parent.spec.name,
        "depth": parent.depth + 1,
    }
    return start if task is None else {**start, "task": task}


def _activity(parent: Activity, child: Spec, talk: RunLog) -> Activity:
    made: list[Activity] = []
    # The person who may be asked sits with the first agent.
    child = replace(child, permission=child.permission or parent.spec.permission)
    activity = Activity(
        spec=child,
        place=parent.place,
        talk=talk,
        depth=parent.depth + 1,
        usage=parent.usage,
        extra_tools=delegate_tools(child, lambda: made[0]),
    )
    made.append(activity)
    return activity


async def _finish(activity: Activity) -> str:
    talk, name = activity.talk, activity.spec.name
    try:
        outcome = await activity.loop()
        if outcome.halts:
            raise AgentError(f"{name} wants to wait for someone; only the first agent can")
    except HoldfastError as error:
        talk.append(
            "agent_error",
            {"agent": name, "error": {"code": error.code, "message": str(error)}},
        )
        raise
    talk.append("agent_complete", {"agent": name, "duration": activity.elapsed_ms()})
    return outcome.output

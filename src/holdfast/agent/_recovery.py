"""What an earlier process left undone: calls whose outcome nobody knows."""

from __future__ import annotations

from holdfast.agent._execution import Executor
from holdfast.agent._reply import CallRequest
from holdfast.agent._talk import is_child
from holdfast.agent._tools import Tool
from holdfast.security import has_mark
from holdfast.session import Session

__all__ = ["find_leftovers", "repeat_leftovers"]


def find_leftovers(session: Session) -> list[CallRequest]:
    """The top-level calls that a process which is gone had begun and not finished.

    To be asked before anything is appended: the first append notes the interruption, and from then
    on the calls count as interrupted.
    """
    state = session.live_state
    if not state.pending_calls or not state.open_turns:
        return []
    found = []
    for call in state.pending_calls.values():
        if not call.begun:
            continue
        event = next(session.events(call.seq))
        params = event.data.get("params")
        # With a mark in the place of a secret it would be another call than the one that was meant.
        whole = not has_mark(bytes(event.raw))
        if not is_child(event) and isinstance(params, dict) and whole:
            found.append(CallRequest(str(event.data["id"]), call.tool, params))
    return found


async def repeat_leftovers(
    leftovers: list[CallRequest], tools: dict[str, Tool], executor: Executor
) -> None:
    """Run again those that do no harm. The others stay without a result, and the model is told."""
    for call in leftovers:
        tool = tools.get(call.name)
        if tool is not None and tool.repeatable:
            await executor.repeat(call, call.id)

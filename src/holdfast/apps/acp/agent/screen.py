"""What an editor is shown of a session of our agent: what is recorded, in that order."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.agent import is_child
from holdfast.apps.acp.agent.editor import EditorAccess
from holdfast.apps.acp.agent.params import Kit, window_of
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.acp.replay.words import (
    call_update,
    content_updates,
    plan_update,
    result_update,
)
from holdfast.apps.wire.frames import notification
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import Event, has_marked_keys
from holdfast.session import Session, resolve_blobs

__all__ = ["EditorScreen", "Update"]

_CATCH_UP_S = 10.0
Update = dict[str, Any]


class EditorScreen:
    """One session in an editor. ``send`` is given its updates, in order."""

    def __init__(
        self,
        hf: Holdfast,
        kit: Kit,
        session: Session,
        desk: EditorAccess,
        send: Callable[[Update], None],
    ) -> None:
        self._hf = hf
        self._out = send
        self._kept: list[Update] | None = None
        """Updates that wait until the past has been told."""
        self._whole = asyncio.Event()
        self._whole.set()
        self._replayed = -1
        self.kit = kit
        self.session = session
        self.desk = desk
        self._pending: set[str] = set()
        """Calls that the editor was shown and that have not ended."""
        self._shaped: set[str] = set()
        """Calls of which it was shown more than their result."""
        self._used: int | None = None
        self._title = session.title
        self._seen = session.seq
        self._told = asyncio.Event()

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @contextlib.contextmanager
    def held_back(self) -> Iterator[int]:
        """While the past is told up to the event that this gives: what comes now is shown then."""
        self._kept = []
        self._whole.clear()
        self._replayed = self.session.seq
        try:
            yield self._replayed
        finally:
            kept, self._kept = self._kept, None
            for update in kept:
                self._out(update)
            self._whole.set()

    def _send(self, update: Update) -> None:
        if self._kept is None:
            self._out(update)
        else:
            self._kept.append(update)

    def show(self, event: Event) -> None:
        """Show the editor what was recorded."""
        if has_marked_keys(bytes(event.raw)):
            [event] = resolve_blobs([event], self._hf.store.documents(self.session.key))
        try:
            if not is_child(event):
                self._count(event.data.get("usage"))
                updates = self._updates(event)
                # What it says itself is not part of the past.
                if event.seq > self._replayed or event.data.get("direction") == "holdfast":
                    for update in updates:
                        self._send(update)
        finally:
            self._seen = max(self._seen, event.seq)
            self._told.set()

    def say(self, text: str) -> None:
        """Tell the user something that is not the model's; it is recorded, and not replayed."""
        for update in content_updates(text, "agent_message_chunk"):
            self._note(update, "holdfast")

    def _note(self, update: Update, direction: str) -> None:
        """Record an update that no other event stands for; then it is shown."""
        frame = notification("session/update", {"sessionId": self.id, "update": update})
        self.session.append("frame", clean({"direction": direction, "frame": frame}))

    def _updates(self, event: Event) -> list[Update]:
        data = event.data
        match event.type:
            case "delta":
                kind = "thought" if data.get("kind") == "thinking" else "message"
                return content_updates(data.get("content"), f"agent_{kind}_chunk")
            case "assistant" | "thinking" if "covers_from" not in data:
                kind = "thought" if event.type == "thinking" else "message"
                return content_updates(data.get("content"), f"agent_{kind}_chunk")
            case "tool_call":
                return [self._begun(data)]
            case "tool_result":
                return self._ended(data)
            case "todo_update":
                return [plan_update(data)]
            case "user" | "title":
                return self._titled()
            case "frame" if data.get("direction") in ("agent", "holdfast"):
                return _update_in(data.get("frame"))
            case _:
                return []

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            figures = (usage.get("input_tokens"), usage.get("output_tokens"))
            self._used = sum(figure for figure in figures if isinstance(figure, int))

    def _begun(self, data: dict[str, Any]) -> Update:
        call = self._call(str(data.get("id")), str(data.get("tool")), data.get("params"))
        known = call["toolCallId"] in self._pending
        self._pending.add(call["toolCallId"])
        if known:
            return {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call["toolCallId"],
                "status": "in_progress",
            }
        return {"sessionUpdate": "tool_call", **call, "status": "in_progress"}

    def _ended(self, data: dict[str, Any]) -> list[Update]:
        call, failed = str(data.get("toolCallId")), data.get("is_error") is True
        self._pending.discard(call)
        made = result_update(call, data.get("result"), failed=failed)
        if call in self._shaped and not failed:
            made.pop("content", None)  # it would take the place of what is shown
        return [made]

    def _call(self, call_id: str, tool: str, params: Any) -> Update:
        call = call_update({"id": call_id, "tool": tool, "params": params}, call_id)
        del call["sessionUpdate"]
        path = params.get("path") if isinstance(params, dict) else None
        if isinstance(path, str) and path:
            call["locations"] = [{"path": os.path.normpath(os.path.join(self.desk.root, path))}]
        return call

    def _show_diff(self, call_id: str, content: list[dict[str, Any]]) -> None:
        self._shaped.add(call_id)
        shown = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "content": content,
            "locations": [{"path": part["path"]} for part in content],
        }
        self._note(shown, "agent")

    def _show_terminal(self, call_id: str, content: list[dict[str, Any]]) -> None:
        """Not recorded: to another editor, or to this one tomorrow, the id says nothing."""
        self._shaped.add(call_id)
        self._send({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": content})

    def _titled(self) -> list[Update]:
        title = self.session.title
        if title == self._title:
            return []
        self._title = title
        return [{"sessionUpdate": "session_info_update", "title": title}]

    async def _tell_usage(self) -> None:
        """How full the context is, where it is known how much there is room for."""
        used, self._used = self._used, None
        window = window_of(self.kit, str(self.session.live_state.config.get("model") or ""))
        if window is None or used is None:
            return
        told: Update = {"sessionUpdate": "usage_update", "used": used, "size": window}
        with contextlib.suppress(HoldfastError):
            cost = (await asyncio.to_thread(self._hf.info, self.id)).cost
            if cost is not None:
                told["cost"] = {"amount": cost, "currency": "USD"}
        self._send(told)

    async def _settle(self) -> None:
        """See to it that everything of a turn has been shown before its end is."""
        end = self.session.seq
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                while self._seen < end:
                    self._told.clear()
                    await self._told.wait()
        await self._whole.wait()
        for call in sorted(self._pending):
            self._send(result_update(call, "cancelled", failed=True))
        self._pending.clear()
        self._shaped.clear()
        await self._tell_usage()


def _update_in(frame: Any) -> list[Update]:
    """The update in a recorded frame, if it is one that the editor is shown."""
    if not isinstance(frame, dict) or frame.get("method") != "session/update":
        return []
    update = frame["params"]["update"]
    return [update] if isinstance(update, dict) else []

"""Recording of the traffic between an editor and an agent as events of a session.

One event for each frame; the log is the truth. Pure: what is given back is to be appended by the
caller, in order, before the frame goes on to the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.apps.acp.recording import values
from holdfast.apps.wire.frames import member, object_in, objects_in, text_in
from holdfast.model import Event, Limits
from holdfast.replay import Stage, stage_after

_PRINTED_CHARS = 256 * 1024
_ENDS = frozenset({"completed", "failed"})
_MERGED = ("title", "kind", "name", "locations", "rawInput", "rawOutput", "content", "_meta")
_ASKED = ("title", "kind", "name", "locations", "_meta")

Draft = tuple[str, dict[str, Any]]


# Agents tell of a call in pieces, each in an order of its own: announced with everything, announced empty and
# completed later, told of only by asking the user about it, or not before it ends. Here the pieces become one call:
# what is known of it, how far it came, and what the log lacks of it.
class OpenCall:
    """One call that has not ended."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.stage: Stage = "begun"
        self.ends = False  # whether the newest update ended it
        self.failed = False
        self.has_begun = False  # whether it may be running, as far as updates say: more than a name is known of it
        self._known: dict[str, Any] = {}
        self._shown: Any = None
        self._recorded: dict[str, Any] | None = None

    @property
    def is_recorded(self) -> bool:
        """Return whether the log has it."""
        return self._recorded is not None

    def update(self, update: dict[str, Any]) -> None:
        """Take in an announcement or an update; what comes later replaces what was said before."""
        known, status = self._known, update.get("status")
        printed = str(known.get("printed", "")) + values.printed_in(update.get("_meta"))
        known |= {key: update[key] for key in _MERGED if update.get(key) is not None}
        if printed:
            known["printed"] = printed[:_PRINTED_CHARS]
        self.ends = isinstance(status, str) and status in _ENDS
        self.failed = status == "failed"
        is_under_way = isinstance(status, str) and status != "pending"
        self.has_begun = self.has_begun or is_under_way or bool(known.get("rawInput"))
        if update.get("sessionUpdate") == "tool_call" and not self.ends:
            self._shown = update.get("content")

    def ask(self, question: dict[str, Any]) -> None:
        """Take in what the user is asked: it fills in what is not known, and often is all there is.

        It may say less than was said before (opencode leaves out the folder), and what it shows is
        no output: a preview, or why there is a question at all (Qwen).
        """
        known, given = self._known, question.get("rawInput")
        known |= {key: question[key] for key in _ASKED if question.get(key)}
        before = known.get("rawInput")
        if isinstance(before, dict) and isinstance(given, dict):
            known["rawInput"] = before | given
        elif given:
            known["rawInput"] = given
        self._shown = question.get("content") or self._shown
        self.has_begun = True

    def data(self) -> dict[str, Any]:
        """Return the data of its ``tool_call``, as far as it is known."""
        tool, title, params = values.tool_name(self._known), self._known.get("title"), self._known.get("rawInput")
        if not params:  # an agent that tells no input: Gemini has only this
            params = values.places(self._known.get("locations"))
            if isinstance(title, str) and title and title != tool:
                params["title"] = title
            shown = values.tool_output({"content": self._shown})
            params |= {"content": shown} if shown else {}
        return {"id": self.id, "tool": tool, "params": params} | ({"title": title} if isinstance(title, str) else {})

    def news(self) -> dict[str, Any] | None:
        """Return the ``tool_call`` that the log lacks; None if what it has of the call is all.

        At the end only the input can be: names and titles are worded anew by then.
        """
        data, before = self.data(), self._recorded
        if before is not None and self.ends:
            data = before | {"params": self._known.get("rawInput") or before["params"]}
        try:
            if data == before:
                return None
        except RecursionError:  # nested deeper than can be compared: it was told once
            return None
        self._recorded = data
        return data if before is None else data | {"amends": True}

    def permission(self, decision: str) -> Draft:
        """Return what is asked or decided about it; from now on it stands so."""
        self.stage = stage_after(decision) or self.stage
        return "permission", {"tool": self.data()["tool"][:_NAME_CHARS], "call": self.id, "decision": decision}

    def result(self) -> dict[str, Any]:
        """Return the data of its ``tool_result``."""
        found: dict[str, Any] = {"toolCallId": self.id, "result": values.tool_output(self._known)}
        return found | ({"is_error": True} if self.failed else {})


def call_id(update: Any) -> str | None:
    """Return the id of the call that an update or a question is about."""
    return text_in(update, "toolCallId") or None


_LIMITS = Limits()
_MESSAGE_CHARS = 128 * 1024  # a message that is longer goes on in another
_PIECE_CHARS = 4 * 1024
_STATE_CHARS_MAX = 64 * 1024
_NAME_CHARS = 200
_MEDIA = frozenset({"image", "audio", "resource", "resource_link"})


class Taken(NamedTuple):
    """The events for a frame, and whether they must be on the medium before it goes on."""

    events: list[Draft]
    barrier: bool = False


class Notes:
    """Takes down one live session, frame by frame. Nothing that a frame holds ever raises.

    ``next_seq`` gives the seq that the first event of the next call will get: append what one call
    gave before the next call, or count what is still held.

    The events may hold what a session refuses (NUL, half a surrogate pair, NaN, endless nesting),
    since looking for it would cost every frame something. So append them as they are, and only
    if that raises InvalidData append ``[(type, clean(data)) for type, data in taken.events]``.
    """

    def __init__(self, agent: str = "agent", *, next_seq: Callable[[], int], limits: Limits = _LIMITS) -> None:
        self.agent_name = agent
        self._next_seq = next_seq
        self._limits = limits
        self._parts: list[str] = []
        self._size = 0
        self._kind = ""
        self._message_id: str | None = None
        self._first = 0
        self._delta: dict[str, Any] | None = None
        # Calls that have not ended, in the order of their first mention, and those of this turn that have.
        self._open: dict[str, OpenCall] = {}
        self._ended: set[str] = set()

    # -- what came -------------------------------------------------------------------------------
    def client(self, frame: Any) -> Taken:
        """Take a request or notification of the editor. Secrets of MCP servers are masked."""
        params = member(frame, "params")
        if member(frame, "method") != "session/prompt":
            masked = frame | {"params": values.without_secrets(params)} if isinstance(params, dict) else frame
            return Taken([_frame("client", masked)])
        events = self._close()
        self._ended.clear()  # another turn may use the same ids again
        events += [("turn_start", {}), ("user", self._user(frame, params))]
        return Taken(events, barrier=True)

    def agent(self, frame: Any) -> Taken:
        """Take a request or notification of the agent."""
        method, update = member(frame, "method"), member(frame, "params", "update")
        if method == "session/request_permission":
            return Taken([*self._close(), *self._question(frame)], barrier=True)
        match member(update, "sessionUpdate") if method == "session/update" else None:
            case "agent_message_chunk":
                return self._chunk(frame, update, "text")
            case "agent_thought_chunk":
                return self._chunk(frame, update, "thinking")
            case "tool_call" | "tool_call_update":
                return self._tool(frame, update)
            case "plan" if isinstance(update.get("entries"), list) and _is_small(frame):
                todos = [values.todo(one) for one in objects_in(update, "entries")]
                return _as_state("todo_update", {"todos": todos}, frame)
            case "session_info_update" if text_in(update, "title").strip() and _is_small(frame):
                return _as_state("title", {"title": update["title"], "auto": True}, frame)
            case _:
                return Taken([_frame("agent", frame)])

    def answer(self, request: Any, answer: Any, direction: str) -> Taken:
        """Take a response, with the request that it answers; ``direction`` is who gave it."""
        method = member(request, "method")
        if method == "session/prompt":
            return self._end_turn(answer, direction)
        if method == "session/request_permission":
            return Taken(self._permission(request, answer, direction), barrier=True)
        return Taken([_frame(direction, answer)])

    @property
    def open_calls(self) -> list[OpenCall]:
        """The calls that have not ended."""
        return list(self._open.values())

    def counted(self, first_seq: int, recorded: Sequence[Event]) -> None:
        """Assign the recorded events to the queued ones, of which the first was expected to have ``first_seq``.

        Redaction may have put an end to a stream before them, so that they came later.
        """
        at = self._first - first_seq
        if self._parts and 0 <= at < len(recorded):
            self._first = recorded[at].seq

    def interrupted(self) -> Taken:
        """Note that the agent died: its streamed text is kept, and its open calls are forgotten."""
        self._forget_message()
        self._open.clear()
        self._ended.clear()
        return Taken([])

    # -- turns -----------------------------------------------------------------------------------
    def _user(self, frame: Any, params: Any) -> dict[str, Any]:
        prompt = member(params, "prompt")
        data: dict[str, Any] = {"role": "user", "content": values.prompt_content(prompt)}
        if _text_bytes(data["content"]) > self._limits.message_bytes_max:
            data["content"] = _shortened(data["content"], self._limits.message_bytes_max)
        elif values.is_plain_prompt(frame, params, prompt):
            return data | {"direction": "client"}
        return data | {"direction": "client", "raw": frame}

    def _end_turn(self, answer: Any, direction: str) -> Taken:
        result = member(answer, "result")
        if not isinstance(result, dict) and member(answer, "error") is not None:
            failure = {"agent": self.agent_name, "error": values.message(answer["error"])}
            failed = ("agent_error", failure | {"direction": direction, "raw": answer})
            return Taken([*self._close(), failed, ("turn_end", {"reason": "failed"})], barrier=True)
        usage = values.figures(member(result, "usage"))
        events = self._close()
        if usage and events and events[-1][0] == "assistant":
            events[-1][1]["usage"] = usage
        elif usage:
            events.append(("usage", usage))
        reason = text_in(result, "stopReason") or "unknown"
        data = {"reason": "completed" if reason == "end_turn" else reason}
        if result != {"stopReason": reason} or answer.keys() != {"jsonrpc", "id", "result"}:
            data |= {"direction": direction, "raw": answer}
        return Taken([*events, ("turn_end", data)], barrier=True)

    def _question(self, frame: Any) -> list[Draft]:
        """Record a question to the user about a call now, since no later record of it may follow."""
        about = member(frame, "params", "toolCall")
        call = self._take(about)
        if call is None:
            return [_frame("agent", frame)]
        call.ask(about)
        # The call has no frame of its own: the question that follows it has it.
        told = [("tool_call", news | {"direction": "agent"}) for news in [call.news()] if news]
        return [*told, _frame("agent", frame), call.permission("ask")]

    def _permission(self, request: Any, answer: Any, direction: str) -> list[Draft]:
        about = member(request, "params", "toolCall")
        call = self._open.get(call_id(about) or "")
        tool = values.tool_name(object_in(about)) if call is None else call.data()["tool"]
        data: dict[str, Any] = {"tool": tool[:_NAME_CHARS], "decision": "cancelled", "scope": "once"}
        if call_id(about) is not None:
            data["call"] = call_id(about)
        outcome = member(answer, "result", "outcome")
        option = member(outcome, "optionId")
        if member(outcome, "outcome") == "selected" and isinstance(option, str):
            data |= {"decision": values.decision(member(request, "params", "options"), option), "option": option}
        if call is not None:
            call.stage = stage_after(data["decision"]) or call.stage
        if not _is_small(answer):
            return [("permission", data), _frame(direction, answer)]
        return [("permission", data | {"direction": direction, "raw": answer})]

    # -- words -----------------------------------------------------------------------------------
    def _chunk(self, frame: Any, update: Any, kind: str) -> Taken:
        content = update.get("content")
        text = member(content, "text")
        if member(content, "type") != "text" or not isinstance(text, str):
            return self._media(frame, content, kind)
        if not text:
            return Taken([_frame("agent", frame)])
        given = update.get("messageId")
        message_id = given if isinstance(given, str) else None
        events = self.words(text, kind, message_id)
        if not values.is_plain_chunk(frame, update, content, message_id):
            events[-1][1].update(direction="agent", raw=frame)
        return Taken(events)

    def words(self, text: str, kind: str, message_id: str | None, *, before: Draft | None = None) -> list[Draft]:
        """Return text of a message as it came, ``kind`` being "text" or "thinking".

        ``before`` is the draft before it, if that is not recorded yet: words of the same message
        are added to it, and nothing is given back.
        """
        goes_on = bool(self._parts) and kind == self._kind and message_id == self._message_id
        # The last piece of this message takes more, if there is nothing else in it and it is not long.
        last = self._delta if goes_on and before is not None and before[1] is self._delta else None
        if last is not None and "raw" not in last and len(last["content"]) < _PIECE_CHARS:
            last["content"] += text
            self._parts.append(text)
            self._size += len(text)
            return []
        is_full = self._size > min(self._limits.message_bytes_max // 8, _MESSAGE_CHARS)
        events = [] if goes_on and not is_full else self._close()
        if not self._parts:
            self._kind, self._message_id = kind, message_id
            self._first = self._next_seq() + len(events)
        self._parts.append(text)
        self._size += len(text)
        data: dict[str, Any] = {"content": text}
        if kind == "thinking":
            data["kind"] = kind
        if message_id is not None:
            data["messageId"] = message_id
        self._delta = data
        events.append(("delta", data))
        return events

    def _media(self, frame: Any, content: Any, kind: str) -> Taken:
        block = values.neutral_block(content) if text_in(content, "type") in _MEDIA else None
        if kind == "thinking" or block is None or _text_bytes([block]) > self._limits.message_bytes_max:
            return Taken([_frame("agent", frame)])
        data = {"role": "assistant", "content": [block], "direction": "agent", "raw": frame}
        return Taken([*self._close(), ("assistant", data)])

    def _close(self) -> list[Draft]:
        """Record the streamed text as a message; text that is too long for one message stays streamed."""
        if not self._parts:
            return []
        text, thinking = "".join(self._parts), self._kind == "thinking"
        data: dict[str, Any] = {} if thinking else {"role": "assistant"}
        data |= {"content": text, "covers_from": self._first}
        if self._message_id is not None:
            data["messageId"] = self._message_id
        self._forget_message()
        if _text_bytes(text) > self._limits.message_bytes_max:
            return []
        return [("thinking" if thinking else "assistant", data)]

    def _forget_message(self) -> None:
        self._parts, self._size = [], 0

    def _take(self, update: Any) -> OpenCall | None:
        """Return the call that an update is about; None if it names none, or one that has ended."""
        id = call_id(update)
        if id is None or id in self._ended:
            return None
        if id not in self._open:
            self._open[id] = OpenCall(id)
        return self._open[id]

    def _tool(self, frame: Any, update: Any) -> Taken:
        is_new, call = call_id(update) not in self._open, self._take(update)
        if call is None:
            return Taken([_frame("agent", frame)])
        call.update(update)
        starts = call.has_begun and not call.is_recorded
        news = call.news() if call.has_begun else None
        events = self._close() if is_new or starts or call.ends else []
        raw = {"direction": "agent", "raw": frame}
        if news is not None:
            events.append(("tool_call", news | raw))
        elif not call.ends:
            events.append(_frame("agent", frame))
        if call.stage == "asked" and update.get("status") == "in_progress":
            # The agent did not wait for an answer: nobody may say that the call has not run.
            events.append(call.permission("withdrawn"))
        if call.ends:
            # The frame is kept once: with the call, if it told of both.
            events.append(("tool_result", call.result() | ({} if news else raw)))
            self._open.pop(call.id, None)
            self._ended.add(call.id)
        return Taken(events, barrier=starts or call.ends)


def _frame(direction: str, frame: Any) -> Draft:
    return "frame", {"direction": direction, "frame": frame}


def _as_state(type: str, data: dict[str, Any], frame: Any) -> Taken:
    return Taken([(type, data | {"direction": "agent", "raw": frame})])


def _texts(content: Any) -> list[str]:
    texts = [block.get("text") for block in content] if isinstance(content, list) else [content]
    return [text for text in texts if isinstance(text, str)]


def _text_bytes(content: Any) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in _texts(content))


def _shortened(content: Any, limit: int) -> str:
    return "\n".join(_texts(content))[: limit // 8] + "\n[… shortened here; the whole of it is in the raw frame]"


def _is_small(frame: Any) -> bool:
    """Return whether state that is kept whole in memory may grow by this value."""
    try:
        return len(msgspec.json.encode(frame)) <= _STATE_CHARS_MAX
    except (ValueError, TypeError, RecursionError, OverflowError):
        return False

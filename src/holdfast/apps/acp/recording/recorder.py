"""What passes between an editor and an agent, as events of a session.

One event for each frame; the log is the truth. Pure: what is given back is to be appended by the
caller, in order, before the frame goes on to the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.apps.acp.recording.values import (
    decision,
    figures,
    is_plain_chunk,
    is_plain_prompt,
    message,
    neutral_block,
    places,
    printed_in,
    prompt_content,
    todo,
    tool_name,
    tool_output,
    without_secrets,
)
from holdfast.model import Event, Limits
from holdfast.replay import Stage, stage_after

_PRINTED_CHARS = 256 * 1024
_ENDS = frozenset({"completed", "failed"})
_MERGED = ("title", "kind", "name", "locations", "rawInput", "rawOutput", "content", "_meta")
_ASKED = ("title", "kind", "name", "locations", "_meta")


# Agents tell of a call in pieces, each in an order of its own: announced with everything, announced
# empty and completed later, told of only by asking the user about it, or not before it ends. Here
# the pieces become one call: what is known of it, how far it came, and what the log lacks of it.


class OpenCall:
    """One call that has not ended."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.stage: Stage = "begun"
        self.ends = False
        """Whether the newest update ended it."""
        self.failed = False
        self.has_begun = False
        """Whether it may be running, as far as updates say: more than a name is known of it."""
        self._known: dict[str, Any] = {}
        self._shown: Any = None
        self._recorded: dict[str, Any] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the log has it."""
        return self._recorded is not None

    @property
    def output(self) -> Any:
        """What it gave."""
        return tool_output(self._known)

    def update(self, update: dict[str, Any]) -> None:
        """Take in an announcement or an update; what comes later replaces what was said before."""
        known, status = self._known, update.get("status")
        printed = str(known.get("printed", "")) + printed_in(update.get("_meta"))
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
        self.stage = "asked"

    def decide(self, decision: str) -> None:
        """Take in what the user answered."""
        self.stage = stage_after(decision) or self.stage

    def data(self) -> dict[str, Any]:
        """The data of its ``tool_call``, as far as it is known."""
        tool, title = tool_name(self._known), self._known.get("title")
        data: dict[str, Any] = {"id": self.id, "tool": tool}
        data["params"] = self._known.get("rawInput") or self._about(tool, title)
        return data | ({"title": title} if isinstance(title, str) else {})

    def _about(self, tool: str, title: Any) -> dict[str, Any]:
        """What stands for the input of an agent that tells none: Gemini has only this."""
        about = places(self._known.get("locations"))
        if isinstance(title, str) and title and title != tool:
            about["title"] = title
        shown = tool_output({"content": self._shown})
        return about | ({"content": shown} if shown else {})

    def news(self) -> dict[str, Any] | None:
        """The ``tool_call`` that the log lacks; None if what it has of the call is all.

        At the end only the input can be: names and titles are worded anew by then.
        """
        data, before = self.data(), self._recorded
        if before is not None and self.ends:
            data = before | {"params": self._known.get("rawInput") or before["params"]}
        if _are_equal(data, before):
            return None
        self._recorded = data
        return data if before is None else data | {"amends": True}


class ToolCalls:
    """Those that have not ended, in the order in which they were told of."""

    def __init__(self) -> None:
        self._open: dict[str, OpenCall] = {}
        self._ended: set[str] = set()

    def __iter__(self) -> Any:
        return iter(self._open.values())

    def get(self, update: Any) -> OpenCall | None:
        """The call that an update is about, if it was told of before and has not ended."""
        return self._open.get(call_id(update) or "")

    def take(self, update: Any) -> OpenCall | None:
        """The call that an update is about; None if it names none, or one that has ended."""
        id = call_id(update)
        if id is None or id in self._ended:
            return None
        if id not in self._open:
            self._open[id] = OpenCall(id)
        return self._open[id]

    def end(self, call: OpenCall) -> None:
        """Nothing more is to be told of a call."""
        self._open.pop(call.id, None)
        self._ended.add(call.id)

    def begin_turn(self) -> None:
        """Another turn may use the same ids again."""
        self._ended.clear()

    def forget(self) -> None:
        """The agent died."""
        self._open.clear()
        self._ended.clear()


def call_id(update: Any) -> str | None:
    """The id of the call that an update or a question is about."""
    id = update.get("toolCallId") if isinstance(update, dict) else None
    return id if isinstance(id, str) and id else None


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except RecursionError:  # nested deeper than can be compared: it was told once
        return True


# One event for each frame: what is given back is to be appended in order.


Draft = tuple[str, dict[str, Any]]

_LIMITS = Limits()
_MESSAGE_CHARS = 128 * 1024  # a message that is longer goes on in another
_PIECE_CHARS = 4 * 1024
_STATE_CHARS_MAX = 64 * 1024
_NAME_CHARS = 200
_MEDIA = frozenset({"image", "audio", "resource", "resource_link"})


class Taken(NamedTuple):
    """What a frame is recorded as, and whether it has to be on the medium before it goes on."""

    events: list[Draft]
    barrier: bool


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
        self._calls = ToolCalls()

    # -- what came -------------------------------------------------------------------------------

    def client(self, frame: Any) -> Taken:
        """A request or notification of the editor. Secrets of MCP servers are masked."""
        params = _member(frame, "params")
        if _member(frame, "method") != "session/prompt":
            return Taken([_frame("client", _without_secrets(frame, params))], barrier=False)
        events = self._close()
        self._calls.begin_turn()
        events += [("turn_start", {}), ("user", self._user(frame, params))]
        return Taken(events, barrier=True)

    def agent(self, frame: Any) -> Taken:
        """A request or notification of the agent."""
        method = _member(frame, "method")
        if method == "session/update":
            try:
                update = frame["params"]["update"]
                taker = _UPDATES[update["sessionUpdate"]]
            except (KeyError, TypeError):  # another kind, or none at all
                return _as_frame(frame)
            return taker(self, frame, update)
        if method == "session/request_permission":
            return Taken([*self._close(), *self._question(frame)], barrier=True)
        return _as_frame(frame)

    def answer(self, request: Any, answer: Any, direction: str) -> Taken:
        """A response, with the request that it answers; ``direction`` is who gave it."""
        method = _member(request, "method")
        if method == "session/prompt":
            return self._end_turn(answer, direction)
        if method == "session/request_permission":
            return Taken(self._permission(request, answer, direction), barrier=True)
        return Taken([_frame(direction, answer)], barrier=False)

    @property
    def open_calls(self) -> list[OpenCall]:
        """The calls that have not ended."""
        return list(self._calls)

    def counted(self, first_seq: int, recorded: Sequence[Event]) -> None:
        """What was taken down is recorded as these; the first was to have ``first_seq``.

        Redaction may have put an end to a stream before them, so that they came later.
        """
        at = self._first - first_seq
        if self._parts and 0 <= at < len(recorded):
            self._first = recorded[at].seq

    def interrupted(self) -> Taken:
        """The agent died: what it was saying stays as it came, what it was doing is forgotten."""
        self._forget_message()
        self._calls.forget()
        return Taken([], barrier=False)

    # -- turns -----------------------------------------------------------------------------------

    def _user(self, frame: Any, params: Any) -> dict[str, Any]:
        prompt = _member(params, "prompt")
        data: dict[str, Any] = {"role": "user", "content": prompt_content(prompt)}
        if _text_bytes(data["content"]) > self._limits.message_bytes_max:
            data["content"] = _shortened(data["content"], self._limits.message_bytes_max)
        elif is_plain_prompt(frame, params, prompt):
            return data | {"direction": "client"}
        return data | {"direction": "client", "raw": frame}

    def _end_turn(self, answer: Any, direction: str) -> Taken:
        result = _member(answer, "result")
        if not isinstance(result, dict) and _member(answer, "error") is not None:
            failure = {"agent": self.agent_name, "error": message(answer["error"])}
            failed = ("agent_error", failure | {"direction": direction, "raw": answer})
            return Taken([*self._close(), failed, ("turn_end", {"reason": "failed"})], barrier=True)
        usage = figures(_member(result, "usage"))
        events = self._close()
        if usage and events and events[-1][0] == "assistant":
            events[-1][1]["usage"] = usage
        elif usage:
            events.append(("usage", usage))
        stopped = _member(result, "stopReason")
        reason = stopped if isinstance(stopped, str) and stopped else "unknown"
        data = {"reason": "completed" if reason == "end_turn" else reason}
        if result != {"stopReason": reason} or answer.keys() != {"jsonrpc", "id", "result"}:
            data |= {"direction": direction, "raw": answer}
        return Taken([*events, ("turn_end", data)], barrier=True)

    def _question(self, frame: Any) -> list[Draft]:
        """The user is asked about a call: on record now, since nothing else may ever tell of it."""
        about = _member(frame.get("params"), "toolCall")
        call = self._calls.take(about)
        if call is None:
            return [_frame("agent", frame)]
        call.ask(about)
        asked = {"tool": call.data()["tool"][:_NAME_CHARS], "call": call.id, "decision": "ask"}
        # The call has no frame of its own: the question that follows it has it.
        told = [("tool_call", news | {"direction": "agent"}) for news in [call.news()] if news]
        return [*told, _frame("agent", frame), ("permission", asked)]

    def _permission(self, request: Any, answer: Any, direction: str) -> list[Draft]:
        params = _member(request, "params")
        about = _member(params, "toolCall")
        call = self._calls.get(about)
        known = about if isinstance(about, dict) else {}
        data: dict[str, Any] = {
            "tool": (tool_name(known) if call is None else call.data()["tool"])[:_NAME_CHARS],
            "decision": "cancelled",
            "scope": "once",
        }
        if call_id(about) is not None:
            data["call"] = call_id(about)
        outcome = _member(_member(answer, "result"), "outcome")
        option = _member(outcome, "optionId")
        if _member(outcome, "outcome") == "selected" and isinstance(option, str):
            data |= {"decision": decision(_member(params, "options"), option), "option": option}
        if call is not None:
            call.decide(data["decision"])
        if not _is_small(answer):
            return [("permission", data), _frame(direction, answer)]
        return [("permission", data | {"direction": direction, "raw": answer})]

    # -- words -----------------------------------------------------------------------------------

    def _chunk(self, frame: Any, update: Any, kind: str) -> Taken:
        content = update.get("content")
        text = _member(content, "text")
        if _member(content, "type") != "text" or not isinstance(text, str):
            return self._media(frame, content, kind)
        if not text:
            return _as_frame(frame)
        given = update.get("messageId")
        message_id = given if isinstance(given, str) else None
        events = self.words(text, kind, message_id)
        if not is_plain_chunk(frame, update, content, message_id):
            events[-1][1].update(direction="agent", raw=frame)
        return Taken(events, barrier=False)

    def words(self, text: str, kind: str, message_id: str | None, *, before: Draft | None = None) -> list[Draft]:
        """Text of a message as it came, ``kind`` being "text" or "thinking".

        ``before`` is the draft before it, if that is not recorded yet: words of the same message
        are added to it, and nothing is given back.
        """
        goes_on = bool(self._parts) and kind == self._kind and message_id == self._message_id
        if goes_on and before is not None and self._takes_more(before[1]):
            before[1]["content"] += text
            self._parts.append(text)
            self._size += len(text)
            return []
        events = [] if goes_on and not self._full() else self._close()
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

    def _takes_more(self, data: dict[str, Any]) -> bool:
        """Whether it is the last piece of this message, with nothing else in it, and not long."""
        return data is self._delta and "raw" not in data and len(data["content"]) < _PIECE_CHARS

    def _message_chunk(self, frame: Any, update: Any) -> Taken:
        return self._chunk(frame, update, "text")

    def _thought_chunk(self, frame: Any, update: Any) -> Taken:
        return self._chunk(frame, update, "thinking")

    def _media(self, frame: Any, content: Any, kind: str) -> Taken:
        given = _member(content, "type")
        block = neutral_block(content) if isinstance(given, str) and given in _MEDIA else None
        if kind == "thinking" or block is None or self._is_long(_text_bytes([block])):
            return _as_frame(frame)
        data = {"role": "assistant", "content": [block], "direction": "agent", "raw": frame}
        return Taken([*self._close(), ("assistant", data)], barrier=False)

    def _full(self) -> bool:
        return self._size > min(self._limits.message_bytes_max // 8, _MESSAGE_CHARS)

    def _is_long(self, size: int) -> bool:
        return size > self._limits.message_bytes_max

    def _close(self) -> list[Draft]:
        """The whole of what was streamed; text that is too much for one message stays streamed."""
        if not self._parts:
            return []
        text, thinking = "".join(self._parts), self._kind == "thinking"
        data: dict[str, Any] = {} if thinking else {"role": "assistant"}
        data |= {"content": text, "covers_from": self._first}
        if self._message_id is not None:
            data["messageId"] = self._message_id
        self._forget_message()
        if self._is_long(_text_bytes(text)):
            return []
        return [("thinking" if thinking else "assistant", data)]

    def _forget_message(self) -> None:
        self._parts, self._size = [], 0

    # -- tools -----------------------------------------------------------------------------------

    def _tool(self, frame: Any, update: Any) -> Taken:
        is_new, call = self._calls.get(update) is None, self._calls.take(update)
        if call is None:
            return _as_frame(frame)
        call.update(update)
        starts = call.has_begun and not call.is_recorded
        news = call.news() if call.has_begun else None
        events = self._close() if is_new or starts or call.ends else []
        if news is not None:
            events.append(("tool_call", news | {"direction": "agent", "raw": frame}))
        elif not call.ends:
            events.append(_frame("agent", frame))
        if call.stage == "asked" and update.get("status") == "in_progress":
            events.append(self._go_on(call))
        if call.ends:
            # The frame is kept once: with the call, if it told of both.
            events.append(("tool_result", self._result(call, None if news else frame)))
            self._calls.end(call)
        return Taken(events, barrier=starts or call.ends)

    def _go_on(self, call: OpenCall) -> Draft:
        """The agent did not wait for an answer: nobody may say that the call has not run."""
        call.decide("withdrawn")
        tool = call.data()["tool"][:_NAME_CHARS]
        return "permission", {"tool": tool, "call": call.id, "decision": "withdrawn"}

    def _result(self, call: OpenCall, frame: Any) -> dict[str, Any]:
        result: dict[str, Any] = {"toolCallId": call.id, "result": call.output}
        if call.failed:
            result["is_error"] = True
        return result if frame is None else result | {"direction": "agent", "raw": frame}

    # -- what else an agent tells ----------------------------------------------------------------

    def _plan(self, frame: Any, update: Any) -> Taken:
        entries = update.get("entries")
        if not isinstance(entries, list) or not _is_small(frame):
            return _as_frame(frame)
        todos = [todo(entry) for entry in entries if isinstance(entry, dict)]
        data = {"todos": todos, "direction": "agent", "raw": frame}
        return Taken([("todo_update", data)], barrier=False)

    def _info(self, frame: Any, update: Any) -> Taken:
        title = update.get("title")
        if not isinstance(title, str) or not title.strip() or not _is_small(frame):
            return _as_frame(frame)
        data = {"title": title, "auto": True, "direction": "agent", "raw": frame}
        return Taken([("title", data)], barrier=False)


_UPDATES: dict[str, Callable[[Notes, Any, Any], Taken]] = {
    "agent_message_chunk": Notes._message_chunk,  # noqa: SLF001 - its own methods
    "agent_thought_chunk": Notes._thought_chunk,  # noqa: SLF001 - as above
    "tool_call": Notes._tool,  # noqa: SLF001 - as above
    "tool_call_update": Notes._tool,  # noqa: SLF001 - as above
    "plan": Notes._plan,  # noqa: SLF001 - as above
    "session_info_update": Notes._info,  # noqa: SLF001 - as above
}


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _frame(direction: str, frame: Any) -> Draft:
    return "frame", {"direction": direction, "frame": frame}


def _as_frame(frame: Any) -> Taken:
    return Taken([_frame("agent", frame)], barrier=False)


def _without_secrets(frame: Any, params: Any) -> Any:
    return frame | {"params": without_secrets(params)} if isinstance(params, dict) else frame


def _text_bytes(content: Any) -> int:
    texts = [content]
    if isinstance(content, list):
        texts = [block.get("text") for block in content]
    return sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))


def _shortened(content: Any, limit: int) -> str:
    texts = [content] if isinstance(content, str) else [block.get("text") for block in content]
    whole = "\n".join(text for text in texts if isinstance(text, str))
    return whole[: limit // 8] + "\n[… shortened here; the whole of it is in the raw frame]"


def _is_small(frame: Any) -> bool:
    """Whether state that is kept whole in memory may grow by this."""
    try:
        return len(msgspec.json.encode(frame)) <= _STATE_CHARS_MAX
    except (ValueError, TypeError, RecursionError, OverflowError):
        return False

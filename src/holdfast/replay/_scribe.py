"""What one run's events say, written into a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.model import Event
from holdfast.replay._blocks import Block, Note, read_content
from holdfast.replay._dialects import Message, dialect_of
from holdfast.replay._ids import call_key
from holdfast.replay._issues import IssueList
from holdfast.replay._messages import admit
from holdfast.replay._native import unpack
from holdfast.replay._runs import Withdrawal
from holdfast.replay._state import stage_after
from holdfast.replay._text import is_base64, is_blank, plain_text, template, type_name
from holdfast.replay._thread import NONE, Thread
from holdfast.replay._values import read_input, read_result
from holdfast.replay._views import View
from holdfast.replay.content import kinds_said

_CALL = template(type="tool_use", id=None, name="", input=None)
_RESULT = template(type="tool_result", tool_use_id=None, content="")
_QUIET = frozenset({"empty_result", "empty_block"})  # an empty answer is no fault of a log


class Scribe:
    """Writes what one run's events say into a thread, and hands its messages out."""

    def __init__(self, incomplete: str) -> None:
        self.thread = Thread(incomplete)
        self.usage: dict[int, dict[str, Any]] = {}
        self._system: dict[str, None] = {}
        self._views: dict[str, View] = {}
        self._seq = 0
        self._user_seq = 0

    @property
    def system(self) -> str | None:
        """The system prompt: every different one, in order."""
        return "\n\n".join(self._system) or None

    def messages(self, provider: str) -> list[Message]:
        """The run's messages in one dialect."""
        view = self._views.get(provider)
        if view is None:
            view = self._views[provider] = View(dialect_of(provider))
        thread = self.thread
        drafts = thread.drafts()
        if thread.touched != NONE:
            for each in self._views.values():
                each.spoil(thread.touched)
            thread.touched = NONE
        return view.hand_out(drafts)

    def take_safely(self, event: Event | Withdrawal, number: int) -> None:
        """Take an event in; what cannot be read becomes an issue."""
        try:
            self.take(event, number)
        except Exception as error:  # noqa: BLE001 - as in Conversation.feed
            self.lament(number, error)

    def lament(self, number: int, error: Exception) -> None:
        """Tell of an event that could not be read."""
        detail = f"an event could not be read ({type_name(error)}): left out"
        self.thread.issues.note("unreadable_event", self.thread.issues.place(number), detail)

    def take(self, event: Event | Withdrawal, number: int) -> None:
        """Take in one event of this run; ``number`` is its place in the log."""
        if isinstance(event, Withdrawal):
            self.thread.retract(self._user_seq)
            return
        self._seq = event.seq if event.seq >= 0 else number
        if event.type == "user":
            self._user_seq = self._seq
        data, take = event.data, _TAKERS[event.type]
        if "native" not in data:
            take(self, data)
            return
        first = self.thread.size()
        take(self, data)
        self._keep_native(event.type, data, first)

    def _keep_native(self, type: str, data: dict[str, Any], first: int) -> None:
        """Remember the provider's messages that an event was."""
        said = data.get("content", data.get("result"))
        messages = unpack(data["native"], said)
        if messages is None:
            return
        if type == "system":
            own = [{"role": "system", "content": said}] if said else []
            self.thread.keep_system(self._seq, messages or own)
        elif self.thread.size() > first:
            self.thread.keep_native(self._seq, messages, first)

    def _note(self, type: str, detail: str, content: Any) -> None:
        if type not in _QUIET:
            issues = self.thread.issues
            issues.note(type, issues.place(self._seq), detail, content)

    # --- one method per type of event

    def on_user(self, data: dict[str, Any]) -> None:
        """What a user said."""
        self._say("user", read_content(data.get("content"), self._note))

    def on_assistant(self, data: dict[str, Any]) -> None:
        """What the assistant said, in place of what was streamed."""
        if "covers_from" in data:
            self._cover(data, "assistant")
        self._say("assistant", read_content(data.get("content"), self._note))
        usage = data.get("usage")
        if isinstance(usage, dict):
            self.usage[self._seq] = usage

    def on_thinking(self, data: dict[str, Any]) -> None:
        """What the assistant thought."""
        self._cover(data, "thinking")
        content = data.get("content")
        if not isinstance(content, list):
            names = ("signature", "thought_signature")
            signed = {name: data[name] for name in names if name in data}
            content = [{"type": "thinking", "thinking": content, **signed}]
        self._say("assistant", read_content(content, self._note))

    def _say(self, side: str, blocks: list[Block]) -> None:
        for block in blocks:
            kind = block["type"]
            if kind == "text":  # nearly all: it may stand on either side
                self.thread.say(self._seq, side, block)
                continue
            pair = admit(side, block, self._note)
            if pair is None:
                continue
            if kind == "tool_use":
                self.thread.call(self._seq, block["id"], block)
            elif kind == "tool_result":
                self.thread.result(self._seq, block["tool_use_id"], block)
            else:
                self.thread.say(self._seq, *pair)

    def _cover(self, data: dict[str, Any], type: str) -> None:
        first = data.get("covers_from")
        if isinstance(first, int):
            self.thread.cover(first, kinds_said(type, data.get("content")))

    def on_tool_call(self, data: dict[str, Any]) -> None:
        """What the assistant wants done."""
        key = call_key(data.get("id"))
        block = _CALL.copy()
        block["id"] = key
        block["name"] = plain_text(data.get("tool")) or ""
        block["input"] = read_input(data.get("params"), self._note)
        signature = data.get("thought_signature")
        if isinstance(signature, str) and is_base64(signature):
            block["thought_signature"] = signature
        if data.get("amends") is not True or not self.thread.amend(key, block):
            self.thread.call(self._seq, key, block, begun=True)

    def on_tool_result(self, data: dict[str, Any]) -> None:
        """What came of it."""
        block = _result_block(data, self._note)
        self.thread.result(self._seq, block["tool_use_id"], block)

    def on_permission(self, data: dict[str, Any]) -> None:
        """What a user was asked, or has answered, about a call."""
        self.thread.decide(call_key(data.get("call")), stage_after(data.get("decision")))

    def on_system(self, data: dict[str, Any]) -> None:
        """What the assistant is told before everything else."""
        for block in read_content(data.get("content"), self._note):
            if block["type"] == "text":
                self._system.setdefault(block["text"])

    def on_delta(self, data: dict[str, Any]) -> None:
        """A part of what is being said."""
        text = plain_text(data.get("content"))
        kind = "thinking" if data.get("kind") == "thinking" else "assistant"
        if text:
            self.thread.stream(self._seq, kind, text)

    def on_retracted(self, data: dict[str, Any]) -> None:
        """What is to be forgotten."""
        seqs = data.get("seqs")
        taken = [s for s in seqs if isinstance(s, int)] if isinstance(seqs, list) else []
        gone = {seq: self.thread.retract(seq) for seq in taken}
        shown = [seq for seq in gone if gone[seq] is not None]
        replacement = data.get("replacement")
        if shown and replacement is not None:
            self.thread.replace(shown[0], _replacement_blocks(replacement, self._note))
        for seq in shown:
            detail = f"event {seq} was retracted"
            self.thread.issues.note("retracted", f"event {seq}", detail, gone[seq])

    def on_compaction(self, data: dict[str, Any]) -> None:
        """A summary of what was said."""
        summary, covers = plain_text(data.get("summary")), data.get("covers")
        if summary is None or is_blank(summary) or not _is_range(covers):
            self._note("invalid_structure", "a compaction without summary or range: ignored", None)
            return
        first, last = covers  # type: ignore[misc]  # it is a range
        count = self.thread.compact(first, last, summary)
        detail = f"{count} blocks of events {first} to {last} are replaced by a summary"
        self.thread.issues.note("compacted", f"events {first} to {last}", detail)


def explain_orphans(results: list[Event], issues: IssueList) -> None:
    """Tell of results whose call is in no run."""
    for event in results:
        block = _result_block(event.data, lambda *_: None)
        detail = f"result for {block['tool_use_id']} has no call: dropped"
        issues.note("orphaned_tool_result", issues.place(event.seq), detail, block)


def _result_block(data: dict[str, Any], note: Note) -> Block:
    content, failed = read_result(data.get("result"), note)
    key = call_key(data.get("toolCallId"))
    block: Block = _RESULT.copy()
    block["tool_use_id"], block["content"] = key, content
    if failed or data.get("is_error") is True:
        block["is_error"] = True
    return block


def _is_range(covers: Any) -> bool:
    return (
        isinstance(covers, list)
        and len(covers) == 2
        and all(isinstance(seq, int) for seq in covers)
        and covers[0] <= covers[1]
    )


def _replacement_blocks(value: Any, note: Any) -> list[Block]:
    """What stands in place of retracted words; only words can."""
    content = value.get("content", value) if isinstance(value, dict) else value
    return [block for block in read_content(content, note) if block["type"] == "text"]


_TAKERS: dict[str, Callable[[Scribe, dict[str, Any]], None]] = {
    "user": Scribe.on_user,
    "assistant": Scribe.on_assistant,
    "thinking": Scribe.on_thinking,
    "tool_call": Scribe.on_tool_call,
    "tool_result": Scribe.on_tool_result,
    "permission": Scribe.on_permission,
    "system": Scribe.on_system,
    "delta": Scribe.on_delta,
    "retracted": Scribe.on_retracted,
    "compaction": Scribe.on_compaction,
}

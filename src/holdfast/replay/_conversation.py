"""Events in, a valid conversation out, at any moment and at the same cost at any length."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import chain
from operator import length_hint
from sys import getrefcount
from typing import Any

import msgspec

from holdfast.model import Event
from holdfast.replay._blocks import Block, Note, call_block, read_content, result_block, sign
from holdfast.replay._dialects import dialect_of
from holdfast.replay._dialects._form import Dialect, Growth, Message, Provider
from holdfast.replay._messages import admit, ignore
from holdfast.replay._native import last_systems, unpack, write_draft
from holdfast.replay._pieces import ROLES, Drafts, Incomplete, Issue, check_incomplete
from holdfast.replay._plain import PlainEvents, SettledThread
from holdfast.replay._runs import EVERY, Router, Withdrawal
from holdfast.replay._state import stage_after
from holdfast.replay._text import MANY, call_key, collector_paused, is_blank, plain_text, type_name
from holdfast.replay._thread import NONE, Thread
from holdfast.replay.content import kinds_said

# Lists of messages handed out at a cost that does not grow with their length.
# The caller gets a list of its own, yet nothing is copied: two buffers take turns, and a buffer is only written to
# while nobody else refers to it. A buffer that lags behind is updated from the first message that changed. If both are
# in use, a fresh copy replaces the older one.
_LONG = 16  # blocks; shorter messages are simply rebuilt


class _Buffer(msgspec.Struct, eq=False):
    """A list that may be handed out, and how much of it is up to date."""

    items: list[Message] = []
    right: int = 0
    length: int = 0
    last: Message | None = None
    tail: _Tail | None = None

    def references(self) -> int:
        """Return the number of references to the list, including this call's."""
        return getrefcount(self.items)

    def fill(
        self, flat: list[Message], tail: Drafts | None, growth: Growth | None, last: list[Message]
    ) -> list[Message]:
        """Update the list; ``last`` is appended for now."""
        items = self.items
        del items[self.right :]
        items.extend(flat[self.right :] if self.right else flat)
        self.right = len(flat)
        if tail is None or growth is None:
            self.tail = None
        else:
            if self.tail is None or not self.tail.follow():
                self.tail = _Tail(tail, growth)
            items.append(self.tail.message)
        items += last
        self.length = len(items)
        self.last = items[-1] if items else None
        return items


class _Tail:
    """This buffer's own copy of a long last message, which grows with it."""

    __slots__ = ("content", "count", "drafts", "epoch", "growth", "message", "number")

    def __init__(self, drafts: Drafts, growth: Growth) -> None:
        self.drafts = drafts
        self.epoch = drafts.epoch
        self.number = len(drafts)
        self.growth = growth
        self.count = 0
        self.message, self.content = growth.begin(ROLES[(self.number - 1) & 1])
        self._extend()

    def follow(self) -> bool:
        """Grow with the last message; return False if it is another one, changed otherwise, or in use."""
        if self.epoch != self.drafts.epoch or self.number != len(self.drafts):
            return False
        if max(getrefcount(self.content), getrefcount(self.message)) > _TAIL_REFERENCES:
            return False
        self._extend()
        return True

    def _extend(self) -> None:
        blocks = self.drafts.last_blocks(self.count)
        self.content.extend(part for part in map(self.growth.part, blocks) if part is not None)
        self.count += len(blocks)


class View:
    """The messages of one conversation in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._flat: list[Message] = []
        self._starts = array("i")
        self._fresh = 0
        self._systems: list[int] = []
        self._buffers = [_Buffer(), _Buffer()]

    def spoil(self, index: int) -> None:
        self._fresh = min(self._fresh, index)

    def hand_out(self, drafts: Drafts) -> list[Message]:
        """Return the messages for these drafts, as a list that the caller may keep."""
        tail, growth = None, self._dialect.growth
        # Rewriting so long a last message each time would be noticeable.
        if growth is not None and drafts.last_count() > _LONG and not drafts.told:
            tail = drafts if not growth.texts_only or drafts.last_is_texts() else None
        self._update(drafts, len(drafts) - (tail is not None))
        last: list[Message] = []
        if drafts.told.systems:
            last = last_systems(self._dialect, drafts, self._systems[-1] if self._systems else 0)
        return self._pick().fill(self._flat, tail, growth, last)

    def _update(self, drafts: Drafts, stop: int) -> None:
        start = min(self._fresh, stop)
        if start < len(self._starts):
            cut = self._starts[start]
            del self._flat[cut:], self._starts[start:]
            for buffer in self._buffers:
                buffer.right = min(buffer.right, cut)
        self._fresh = stop
        flat, starts, write = self._flat, self._starts, self._dialect.write
        if not drafts.told or self._dialect.name == "neutral":
            before = drafts.blocks(start - 1) if start else []
            with collector_paused(stop - start):
                for index, blocks in enumerate(drafts.spans(start, stop), start):
                    starts.append(len(flat))
                    flat += write(ROLES[index & 1], blocks, before)
                    before = blocks
            return
        # Some of it came as messages of a provider.
        systems = self._systems
        systems += [0] * (start - len(systems))  # before the first of them there was none
        at = systems[start - 1] if start else 0
        del systems[start:]
        for index in range(start, stop):
            starts.append(len(flat))
            messages, at = write_draft(self._dialect, drafts, index, at)
            flat += messages
            systems.append(at)

    def _pick(self) -> _Buffer:
        """Return a buffer that may be written to; the one handed out longest ago first."""
        buffers = self._buffers
        # The holder of a list may read it at any time: it must not change meanwhile.
        for index, buffer in enumerate(buffers):
            if buffer.references() <= _OWN_REFERENCES:
                items = buffer.items
                # Its holder may have changed it before releasing it.
                if len(items) != buffer.length or (items and items[-1] is not buffer.last):
                    items.clear()
                    buffer.right = 0
                    buffer.tail = None
                buffers.append(buffers.pop(index))
                return buffer
        del buffers[0]
        buffers.append(_Buffer())
        return buffers[-1]


_OWN_REFERENCES = _Buffer().references()
_TAIL_REFERENCES = _OWN_REFERENCES + 1  # in the message or in the list as well

_QUIET = frozenset({"empty_result", "empty_block"})  # an empty answer is no fault of a log


class Scribe:
    """Writes the events of one run into a thread, and hands its messages out."""

    def __init__(self, incomplete: str) -> None:
        self.thread = SettledThread(incomplete)
        self.usage: dict[int, dict[str, Any]] = {}
        self._system: dict[str, None] = {}
        self._views: dict[str, View] = {}
        self.user_seq = 0
        self._seq = 0

    @property
    def system(self) -> str | None:
        """Add a system prompt: every different one, in order."""
        return "\n\n".join(self._system) or None

    def messages(self, provider: str) -> list[Message]:
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

    def lament(self, number: int, error: Exception) -> None:
        detail = f"an event could not be read ({type_name(error)}): left out"
        self.thread.issues.note("unreadable_event", number, detail)

    def take(self, event: Event | Withdrawal, number: int) -> None:
        """Process one event of this run; ``number`` is its place in the log."""
        if isinstance(event, Withdrawal):
            self.thread.retract(self.user_seq)
            return
        self._seq = event.seq if event.seq >= 0 else number
        if event.type == "user":
            self.user_seq = self._seq
        data = event.data
        first = self.thread.size() if "native" in data else 0
        _TAKERS[event.type](self, data)
        if "native" not in data:
            return
        said = data.get("content", data.get("result"))
        messages = unpack(data["native"], said)
        if messages is None:
            return
        if event.type == "system":
            own = [{"role": "system", "content": said}] if said else []
            self.thread.keep_system(self._seq, messages or own)
        elif self.thread.size() > first:
            self.thread.keep_native(self._seq, messages, first)

    def _note(self, type: str, detail: str, content: Any) -> None:
        if type not in _QUIET:
            self.thread.issues.note(type, self._seq, detail, content)

    # --- one method per type of event
    def on_user(self, data: dict[str, Any]) -> None:
        self._say("user", read_content(data.get("content"), self._note))

    def on_assistant(self, data: dict[str, Any]) -> None:
        """Handle the assistant's message, which replaces what was streamed."""
        if "covers_from" in data:
            self._cover(data, "assistant")
        self._say("assistant", read_content(data.get("content"), self._note))
        if isinstance(data.get("usage"), dict):
            self.usage[self._seq] = data["usage"]

    def on_thinking(self, data: dict[str, Any]) -> None:
        self._cover(data, "thinking")
        content = data.get("content")
        if not isinstance(content, list):
            signed = {name: data[name] for name in ("signature", "thought_signature") if name in data}
            content = [{"type": "thinking", "thinking": content, **signed}]
        self._say("assistant", read_content(content, self._note))

    def _say(self, side: str, blocks: list[Block]) -> None:
        for block in blocks:
            if block["type"] == "text":  # nearly all: it may be on either side
                self.thread.say(self._seq, side, block)
            elif (pair := admit(side, block, self._note)) is not None:
                self.thread.take(self._seq, *pair)

    def _cover(self, data: dict[str, Any], type: str) -> None:
        first = data.get("covers_from")
        if isinstance(first, int):
            self.thread.cover(first, kinds_said(type, data.get("content")))

    def on_tool_call(self, data: dict[str, Any]) -> None:
        key = call_key(data.get("id"))
        block = call_block(key, data.get("tool"), data.get("params"), self._note)
        if "thought_signature" in data:
            sign(block, data)
        if data.get("amends") is not True or not self.thread.amend(key, block):
            self.thread.call(self._seq, key, block, begun=True)
        if data.get("begun") is False:
            self.thread.decide(key, "asked")

    def on_tool_result(self, data: dict[str, Any]) -> None:
        block = _result_block(data, self._note)
        self.thread.result(self._seq, block["tool_use_id"], block)

    def on_permission(self, data: dict[str, Any]) -> None:
        """Handle a question to the user about a call, or the answer."""
        self.thread.decide(call_key(data.get("call")), stage_after(data.get("decision"), data.get("id")))

    def on_step(self, data: dict[str, Any]) -> None:
        """Handle the beginning of a call that was recorded before."""
        if data.get("begin") is True:
            self.thread.decide(call_key(data.get("call")), "begun")

    def on_system(self, data: dict[str, Any]) -> None:
        for block in read_content(data.get("content"), self._note):
            if block["type"] == "text":
                self._system.setdefault(block["text"])

    def on_delta(self, data: dict[str, Any]) -> None:
        text = plain_text(data.get("content"))
        kind = "thinking" if data.get("kind") == "thinking" else "assistant"
        if text:
            self.thread.stream(self._seq, kind, text)

    def on_retracted(self, data: dict[str, Any]) -> None:
        seqs = data.get("seqs")
        taken = [s for s in seqs if isinstance(s, int)] if isinstance(seqs, list) else []
        gone = {seq: self.thread.retract(seq) for seq in taken}
        shown = [seq for seq in gone if gone[seq] is not None]
        replacement = data.get("replacement")
        if shown and replacement is not None:
            content = replacement.get("content", replacement) if isinstance(replacement, dict) else replacement
            # Only words can replace others.
            words = [block for block in read_content(content, self._note) if block["type"] == "text"]
            self.thread.replace(shown[0], words)
        for seq in shown:
            self.thread.issues.note("retracted", seq, f"event {seq} was retracted", gone[seq])

    def on_compaction(self, data: dict[str, Any]) -> None:
        summary = plain_text(data.get("summary"))
        match data.get("covers"):
            case [int(first), int(last)] if first <= last and summary and not is_blank(summary):
                count = self.thread.compact(first, last, summary)
                detail = f"{count} blocks of events {first} to {last} are replaced by a summary"
                self.thread.issues.note("compacted", f"events {first} to {last}", detail)
            case _:
                self._note("invalid_structure", "a compaction without summary or range: ignored", None)


def _result_block(data: dict[str, Any], note: Note) -> Block:
    key, failed = call_key(data.get("toolCallId")), data.get("is_error") is True
    return result_block(key, data.get("result"), note, failed=failed)


_TAKERS: dict[str, Callable[[Scribe, dict[str, Any]], None]] = {
    "user": Scribe.on_user,
    "assistant": Scribe.on_assistant,
    "thinking": Scribe.on_thinking,
    "tool_call": Scribe.on_tool_call,
    "tool_result": Scribe.on_tool_result,
    "permission": Scribe.on_permission,
    "step": Scribe.on_step,
    "system": Scribe.on_system,
    "delta": Scribe.on_delta,
    "retracted": Scribe.on_retracted,
    "compaction": Scribe.on_compaction,
}


class Conversation:
    """The conversation of one run of a log, kept up to date event by event.

    ``run`` is None for the top-level one, else an id that :func:`runs` gives. ``incomplete`` determines how a call
    without a result is treated: "mark" (a stand-in result says that it was interrupted), "drop" or "keep" (for callers
    that run it again; then the list need not be valid).

    Feeding an event and asking for the messages after it take the same time at any length. Events must be fed in the
    order of the log. Nothing about an event's content ever raises.
    """

    def __init__(self, *, run: str | None = None, incomplete: Incomplete = "mark") -> None:
        self._run = run
        self._router = Router()
        self._scribe = Scribe(check_incomplete(incomplete))
        self._plain = PlainEvents(self._router, self._scribe)
        self._count = 0

    def feed(self, event: Event) -> None:
        """Process the next event of the log, of whatever run and type."""
        number = self._count
        self._count += 1
        try:
            for run, what in self._router.route(event):
                if run == self._run or run is EVERY:
                    self._scribe.take(what, number)
        except Exception as error:  # noqa: BLE001 - whatever a foreign log holds, recovery goes on
            self._scribe.lament(number, error)

    def feed_all(self, events: Iterable[Event]) -> None:
        """Process the next events of the log: like one by one, but faster."""
        plain = self._plain
        plain.look()
        with collector_paused(length_hint(events, MANY)):
            for event in events:
                if self._run is None and plain.takes(event):
                    self._count += 1
                else:
                    self._feed_held()
                    self.feed(event)
                    plain.look(getattr(event, "type", None))
            self._feed_held()

    def _feed_held(self) -> None:
        held = self._plain.give_back()
        self._count -= len(held)
        for event in held:
            self.feed(event)
        if held:
            self._plain.look()

    def messages(self, provider: Provider = "neutral") -> list[Message]:
        """Return the conversation so far, valid for the provider.

        The list is the caller's; later feeds do not change it. The messages in it are shared and must not be changed
        in place. Raises UsageError for an unknown provider.
        """
        return self._scribe.messages(provider)

    @property
    def system(self) -> str | None:
        """The system prompt, which is never among the messages; None if there was none."""
        return self._scribe.system

    @property
    def issues(self) -> list[Issue]:
        """The changes so far, and the parts of this run that are not among the messages."""
        issues = self._scribe.thread.report()
        if self._run is None:
            for event in chain.from_iterable(self._router.limbo.values()):
                block = _result_block(event.data, ignore)
                detail = f"result for {block['tool_use_id']} has no call: dropped"
                issues.note("orphaned_tool_result", event.seq, detail, block)
        return issues

    @property
    def sources(self) -> list[list[int]]:
        """For each neutral message the events of its blocks, counted as fed, from 0; -1 for inserted ones."""
        drafts = self._scribe.thread.drafts()
        return [list(drafts.seqs(index)) for index in range(len(drafts))]

    @property
    def thread(self) -> Thread:
        """The assembled pieces, for this room only."""
        return self._scribe.thread

    @property
    def usage(self) -> dict[int, dict[str, Any]]:
        """The providers' own token counts by event, for this room only."""
        return self._scribe.usage


class RunConversation(msgspec.Struct, frozen=True):
    """One run of a log: its id (None for the top-level one), its agent and its conversation."""

    id: str | None
    agent: str | None
    conversation: Conversation


def runs(events: Iterable[Event], *, incomplete: Incomplete = "mark") -> list[RunConversation]:
    """Return every run of a log with its conversation, the top-level one first; for reading only."""
    # One router sorts for all: each run alone would see only its own part of the names.
    top = Conversation(incomplete=incomplete)
    found: dict[str | None, Conversation] = {None: top}
    agents: dict[str | None, str | None] = {}
    for number, event in enumerate(events):
        try:
            deliveries = top._router.route(event)  # noqa: SLF001 - of the same class
        except Exception as error:  # noqa: BLE001 - as in Conversation.feed
            top._scribe.lament(number, error)  # noqa: SLF001 - the same
            continue
        for run, what in deliveries:
            if run is not EVERY and run not in found:
                found[run] = Conversation(run=run, incomplete=incomplete)
            for one in list(found) if run is EVERY else (run,):
                scribe = found[one]._scribe  # noqa: SLF001 - the same
                try:
                    scribe.take(what, number)
                except Exception as error:  # noqa: BLE001 - as in Conversation.feed
                    scribe.lament(number, error)
                data = what.data if isinstance(what, Event) else None
                agent = data.get("agent") if isinstance(data, dict) else None
                agents.setdefault(one, agent if isinstance(agent, str) else None)
    known = top._router.runs.all  # noqa: SLF001 - the same
    agents |= {run.key: run.agent for run in known if run.agent}
    return [RunConversation(run, agents.get(run), found[run]) for run in found]

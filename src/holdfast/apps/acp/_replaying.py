"""A recorded session told again to an editor, as ``session/update`` notifications.

What came over the wire is told as it came; what was recorded in another way (by our own agent, by
an import) is put into the protocol's words. Pure: events in, lines out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from holdfast.apps.acp._replaying_calls import Calls
from holdfast.apps.acp._replaying_lines import DeltaLine, FinalLine, Line, OtherLine
from holdfast.apps.acp._replaying_log import Some, in_some
from holdfast.apps.acp._replaying_output import PIECE_CHARS, Output, Update
from holdfast.apps.acp._replaying_pieces import PIECES_AT_ONCE, put_together, said_since
from holdfast.apps.acp._replaying_runs import Cast
from holdfast.apps.acp._replaying_shapes import (
    CALLS,
    FinalData,
    Finder,
    Told,
    decode_delta,
    decode_final,
    plain,
)
from holdfast.apps.acp._replaying_sorting import Sorted, sort_out
from holdfast.apps.acp._replaying_spoken import Since, Spoken
from holdfast.apps.acp._replaying_standing import STANDING, Standing
from holdfast.apps.acp._replaying_words import (
    call_update,
    content_updates,
    is_echo,
    is_text,
    plan_update,
    prompt_of,
    question_of,
    question_update,
    result_update,
    undone_update,
)
from holdfast.model import Event
from holdfast.replay import as_text

__all__ = ["replay", "replay_some"]

_QUESTION = b'"session/request_permission"'
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


def replay(
    events: Iterable[Event], session_id: str, *, close_open: bool = True, marks: bool = False
) -> Iterator[bytes]:
    """The lines, each with its line feed, that tell an editor of these events, in order.

    The events' payloads have to be with them (``resolve_blobs``). ``close_open`` ends tool calls
    that never ended as failed, where their turn broke off. With ``marks`` each line says in
    ``params._meta.holdfast.seq`` up to which event all has been told once it is read; commands,
    modes, options, usage and title come last, as they are at the end. What child runs did is left
    out. Nothing that a log holds raises.
    """
    some = in_some(iter(events))
    for lines in replay_some(some, session_id, close_open=close_open, marks=marks):
        yield from lines.splitlines(keepends=True)


def replay_some(
    some: Iterable[Some], session_id: str, *, close_open: bool = True, marks: bool = False
) -> Iterator[bytes]:
    """The same for events as ``read_some`` gives them, and many lines at once."""
    teller = _Teller(session_id, close_open=close_open, marks=marks)
    for few in some:
        teller.take(few)
        yield teller.out.collect()
    teller.finish()
    yield teller.out.collect()


class _Teller:
    """Keeps what has to be known of the events before, and gathers lines."""

    def __init__(self, session_id: str, *, close_open: bool, marks: bool) -> None:
        self.out = Output(session_id, marks=marks)
        self._close_open = close_open
        self._elsewhere = f"what it says and does: holdfast show {session_id}"
        self._cast = Cast()
        self._find = Finder()
        self._seq = -1
        self._begin = 0
        self._spoken = Spoken()
        self._pieces: list[DeltaLine] = []
        self._calls = Calls()
        self._standing = Standing()
        self._asked: list[dict[str, Any]] = []

    def take(self, some: Some) -> None:
        """Tell of events, as far as they are to be told of."""
        if self._seq < 0:
            self._begin = some.first
        found = None if self.out.marks else self._sort_out(some)
        if found is None:
            self._take_events(some)
        else:
            self._take_lines(some, found)
        self._seq = some.last

    def _take_lines(self, some: Some, found: Sorted) -> None:
        """The same, quicker: nearly all lines are of messages and of tool calls."""
        pieces = self._pieces
        told = followed = 0
        for line, before, calls, whole in found.others:
            if before > told:
                self._tell_all(some, found.updates[told:before], whole)
                told = before
            if isinstance(line, DeltaLine):
                pieces.append(line)
                if len(pieces) == PIECES_AT_ONCE:
                    self._take_pieces(some)
            elif isinstance(line, FinalLine):
                self._take_final(some, line)
            else:
                self._calls.follow(found.calls[followed:calls])
                followed = calls
                self._take_other(some, line)
        self._tell_all(some, found.updates[told:], found.whole)
        self._calls.follow(found.calls[followed:])

    def _tell_all(self, some: Some, updates: list[Update], whole: int) -> None:
        """Updates as they came; ``whole`` is the event of the last message among them."""
        if self._pieces:
            self._take_pieces(some)
        if updates:
            self.out.flush()
            self.out.updates += updates
            self._spoken.end("text", whole)

    def _take_other(self, some: Some, line: Line) -> None:
        if self._pieces:
            self._take_pieces(some)
        self._take(line.event() if isinstance(line, OtherLine) else some.event(line.seq))

    def _sort_out(self, some: Some) -> Sorted | None:
        silent = not self._pieces and not self.out.texts
        return None if some.lines is None else sort_out(some.lines, self._find, silent=silent)

    def _take_events(self, some: Some) -> None:
        if self._pieces:
            self._take_pieces(some)
        for event in some.events:
            self._take(event)

    def _take(self, event: Event) -> None:
        taker = _TAKERS.get(event.type)
        if taker is None:
            self._cast.note(event)
            if self._cast.unsaid:
                self._tell_delegates(event.seq)
        elif event.run is None or event.run not in self._cast.children:
            try:
                taker(self, event)
            except Exception:  # noqa: BLE001, S110 - whatever a foreign log holds, the rest is told
                pass

    def _tell_delegates(self, seq: int) -> None:
        """Say who works in a run that is not told of, on what, and where it can be read."""
        self.out.flush()
        for name, task in self._cast.unsaid:
            words = "" if task is None else f": {as_text(task)}"
            text = f"{name} works on this{words}\n({self._elsewhere})"
            self.out.tell_all(content_updates(text, "agent_thought_chunk"), seq)
        self._cast.unsaid.clear()

    def finish(self) -> None:
        """Tell what stands at the end."""
        self._end_open(self._seq)
        self.out.flush()
        self._standing.tell(self.out, self._seq)

    # -- what nearly all events are --------------------------------------------------------------

    def _take_pieces(self, some: Some) -> None:
        """Pieces of messages, as many as belong together at once."""
        pieces = self._pieces
        whole = put_together([piece.data for piece in pieces])
        if whole is not None and len(whole.content) <= PIECE_CHARS:
            # Copies: the rest of what was read with them is not to be held.
            since = partial(said_since, [(piece.seq, bytes(piece.data)) for piece in pieces])
            first, last = pieces[0].seq, pieces[-1].seq
            self._heard(whole.content, whole.kind, whole.messageId, first, last, since)
        else:
            for piece in pieces:
                one = put_together([piece.data])
                if one is None:
                    self._take(some.event(piece.seq))
                else:
                    self._heard(one.content, one.kind, one.messageId, piece.seq, piece.seq)
        pieces.clear()

    def _take_final(self, some: Some, line: FinalLine) -> None:
        """A whole message, which nearly always is what its pieces were."""
        if self._pieces:
            self._take_pieces(some)
        if not self._is_told_by_its_pieces(line.data, line.seq):
            self._take(some.event(line.seq))

    # -- frames as they came ---------------------------------------------------------------------

    def _tell_frame(self, told: Told | None, seq: int) -> bool:
        """Tell of a recorded frame. False if it is no update of a session."""
        if told is None:
            return False
        update, about, extra = told
        kind = about.kind
        if kind in CALLS:
            if about.call is not None:
                self._calls.track(about.call, about.status)
                if about.content:
                    self._calls.show(about.call, about.content)
        elif kind in STANDING:
            self._standing.take(kind, update)
            return True
        elif kind == "user_message_chunk" and is_echo(update, self._asked):
            return True
        if extra is not None:
            self.out.tell_odd(extra, seq)
        else:
            self.out.tell(update, seq)
        return True

    def _end_open(self, seq: int) -> None:
        for call, stage in self._calls.leave():
            if self._close_open:
                self.out.tell(_encode(undone_update(call, stage)), seq)

    # -- one method per type of event ------------------------------------------------------------

    def _on_delta(self, event: Event) -> None:
        data = decode_delta(event)
        if data.agent is not None and self._cast.is_child(data.agent):
            return
        seq = event.seq
        if data.raw and self._tell_frame(self._find.decode(data.raw), seq):
            kind = "thinking" if data.kind == "thinking" else "text"
            self._spoken.add(data.content, kind, seq, seq)
        else:
            self._heard(data.content, data.kind, data.messageId, seq, seq)

    def _heard(  # noqa: PLR0917 - what a piece says, and where it stood
        self,
        text: str,
        kind: str | None,
        message_id: str | None,
        first: int,
        last: int,
        since: Since | None = None,
    ) -> None:
        """Words that came with some events."""
        if text:
            kind = "thinking" if kind == "thinking" else "text"
            self.out.say(text, kind, message_id, last)
            self._spoken.add(text, kind, first, last, since)

    def _on_frame(self, event: Event) -> None:
        told = self._find.in_frame(event)
        if told is None and _QUESTION in bytes(event.raw):
            self._on_question(event)
        self._tell_frame(told, event.seq)

    def _on_question(self, event: Event) -> None:
        data = plain(event)
        about = question_of(data.get("frame")) if data.get("direction") == "agent" else None
        if about is None or about["toolCallId"] in self._calls.ended:
            return
        call = about["toolCallId"]
        update = question_update(about, is_known=self._calls.knows(call))
        self._tell_updates([update], event.seq)
        self._calls.decide(call, "ask")
        if about.get("content"):
            self._calls.show(call, msgspec.Raw(_encode(about["content"])))

    def _on_permission(self, event: Event) -> None:
        data = plain(event)
        self._calls.decide(data.get("call"), data.get("decision"))

    def _on_user(self, event: Event) -> None:
        data = plain(event)
        if self._cast.is_childs_task(data):
            return
        self.out.flush()
        prompt = prompt_of(data.get("raw"))
        if prompt is not None:
            updates = [{"sessionUpdate": "user_message_chunk", "content": one} for one in prompt]
        else:
            updates = content_updates(data.get("content"), "user_message_chunk")
        results = [one for one in updates if "toolCallId" in one]
        said = [one for one in updates if "toolCallId" not in one]
        self._tell_updates(results, event.seq - 1 if said else event.seq)
        if said:  # else only what tools gave, in the form of other programs
            self._end_open(event.seq - 1)
            self._asked = said
            self._tell_updates(said, event.seq)

    def _on_assistant(self, event: Event) -> None:
        with contextlib.suppress(msgspec.DecodeError):
            if self._is_told_by_its_pieces(decode_final(event.raw), event.seq):
                return
        data = plain(event)
        self.out.flush()
        if self._cast.is_child(data.get("agent")) or self._told_raw(event):
            return
        updates = content_updates(data.get("content"), "agent_message_chunk")
        if self._was_streamed(data, "text"):
            updates = self._lacking(updates, "text", data["covers_from"])
        message_id = data.get("messageId")
        if isinstance(message_id, str):
            for update in updates:
                if update["sessionUpdate"] == "agent_message_chunk":
                    update["messageId"] = message_id
        self._tell_updates(updates, event.seq)

    def _lacking(
        self, updates: list[dict[str, Any]], kind: str, first: int
    ) -> list[dict[str, Any]]:
        """Those updates of a message, streamed from ``first`` on, that its pieces did not tell."""
        chunk = "agent_thought_chunk" if kind == "thinking" else "agent_message_chunk"
        whole = "".join([one["content"]["text"] for one in updates if is_text(one, chunk)])
        rest = self._spoken.rest(whole, kind, first) if first >= self._begin else ""
        told = content_updates(rest, chunk)
        return [*told, *(one for one in updates if not is_text(one, chunk))]

    def _is_told_by_its_pieces(self, final: FinalData, seq: int) -> bool:
        """Text that was streamed before, as nearly all of it is."""
        first = final.covers_from
        if first is None or not self._spoken.reaches("text", first) or not final.is_bare_text:
            return False
        self._complete("text", _decode(final.content), first, final.messageId, seq)
        return True

    def _complete(
        self, kind: str, whole: str, first: int, message_id: str | None, seq: int
    ) -> None:
        """The end of a message is said now if its pieces lack it."""
        rest = self._spoken.rest(whole, kind, first)
        if rest and first >= self._begin:
            self.out.say(rest, kind, message_id, seq)
        if self.out.texts:
            self.out.flush()

    def _on_thinking(self, event: Event) -> None:
        data = plain(event)
        content, is_told = data.get("content"), self._was_streamed(data, "thinking")
        if self._cast.is_child(data.get("agent")):
            self.out.flush()
        elif is_told and isinstance(content, str):
            self._complete("thinking", content, data["covers_from"], None, event.seq)
        else:
            updates = content_updates(content, "agent_thought_chunk")
            if is_told:
                updates = self._lacking(updates, "thinking", data["covers_from"])
            self.out.flush()
            self._tell_updates(updates, event.seq)

    def _tell_updates(self, updates: list[dict[str, Any]], seq: int) -> None:
        for update in updates:
            call = update.get("toolCallId")
            if isinstance(call, str):
                self._calls.track(call, update.get("status"))
        self.out.tell_all(updates, seq)

    def _was_streamed(self, data: dict[str, Any], kind: str) -> bool:
        """Whether what a final event covers was told piece by piece, here or before the start."""
        first = data.get("covers_from")
        if not isinstance(first, int):
            return False
        return self._spoken.reaches(kind, first) or 0 <= first < self._begin

    def _told_raw(self, event: Event) -> bool:
        return self._tell_frame(self._find.in_raw(event), event.seq)

    def _on_call(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        if self._cast.is_child(data.get("agent")):
            self._cast.left_out.add(str(data.get("id")))
            return
        if data.get("direction") == "agent":
            return  # put together from frames, all of which are told
        update = call_update(data, f"event-{event.seq}")
        if update["toolCallId"] in self._calls.open:  # by a question about it
            update["sessionUpdate"] = "tool_call_update"
        self._tell_updates([update], event.seq)

    def _on_result(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        call = data.get("toolCallId")
        if not isinstance(call, str) or call in self._calls.ended or call in self._cast.left_out:
            return
        failed = data.get("is_error") is True
        update = result_update(call, data.get("result"), failed=failed)
        if self._calls.shows(call) and not failed:
            del update["content"]  # it would take the place of what a frame showed, such as a diff
        if not self._calls.knows(call) and self._begin <= 0:  # an editor knows no such call
            update = {"sessionUpdate": "tool_call", "title": "tool", **update}
            update["sessionUpdate"] = "tool_call"
        self._tell_updates([update], event.seq)

    def _on_todos(self, event: Event) -> None:
        if not self._told_raw(event):
            self._tell_updates([plan_update(plain(event))], event.seq)

    def _on_title(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        self._standing.name(data.get("title"), auto=data.get("auto") is True)


_TAKERS: dict[str, Callable[[_Teller, Event], None]] = {
    "delta": _Teller._on_delta,  # noqa: SLF001 - its own methods
    "frame": _Teller._on_frame,  # noqa: SLF001 - as above
    "user": _Teller._on_user,  # noqa: SLF001 - as above
    "assistant": _Teller._on_assistant,  # noqa: SLF001 - as above
    "thinking": _Teller._on_thinking,  # noqa: SLF001 - as above
    "tool_call": _Teller._on_call,  # noqa: SLF001 - as above
    "tool_result": _Teller._on_result,  # noqa: SLF001 - as above
    "permission": _Teller._on_permission,  # noqa: SLF001 - as above
    "todo_update": _Teller._on_todos,  # noqa: SLF001 - as above
    "title": _Teller._on_title,  # noqa: SLF001 - as above
}

"""A recorded session told again to an editor, as ``session/update`` notifications.

What came over the wire is told as it came; what was recorded in another way (by our own agent, by
an import) is put into the protocol's words. Pure: events in, lines out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from holdfast.apps.acp.replay import words
from holdfast.apps.acp.replay.log import (
    CALLS,
    DeltaLine,
    FinalLine,
    Finder,
    OtherLine,
    Some,
    Told,
    decode_texts,
    in_some,
    plain,
)
from holdfast.apps.acp.replay.output import PIECE_CHARS, Output, Sorted, Update, sort_out
from holdfast.apps.acp.replay.words import Cast, ReplayedCalls
from holdfast.model import Event
from holdfast.replay import Streams, as_text, kinds_said, unreadable

_QUESTION = b'"session/request_permission"'
# Many are decoded with one call; of a stream without an end no more than these are held.
_PIECES_AT_ONCE = 256
_ANSWER = ("assistant",)
_CHUNKS = {"assistant": "agent_message_chunk", "thinking": "agent_thought_chunk"}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode

Watch = Callable[[Event], None]


def replay(
    events: Iterable[Event], session_id: str, *, close_open: bool = True, marks: bool = False, stop: int | None = None
) -> Iterator[bytes]:
    """Yield the lines, each with its line feed, that tell an editor of these events, in order.

    The events' payloads have to be with them (``resolve_blobs``). ``close_open`` ends tool calls
    that never ended as failed, where their turn broke off. With ``marks`` each line says in
    ``params._meta.holdfast.seq`` up to which event all has been told once it is read; commands,
    modes, options, usage and title come last, as they are at the end. What child runs did is left
    out. Events that are missing before ``stop`` are told to be. Nothing that a log holds raises.
    """
    some = in_some(iter(events))
    for lines in replay_some(some, session_id, close_open=close_open, marks=marks, stop=stop):
        yield from lines.splitlines(keepends=True)


def replay_some(
    some: Iterable[Some],
    session_id: str,
    *,
    close_open: bool = True,
    marks: bool = False,
    stop: int | None = None,
    watch: Watch = lambda _: None,
) -> Iterator[bytes]:
    """Tell of events as ``read_some`` gives them, many lines at once.

    ``watch`` sees every event that is neither a message of an agent nor a tool call nor a frame,
    in order: who needs to know something else of the log has not to read it again.
    """
    teller = _Teller(session_id, close_open=close_open, marks=marks, watch=watch)
    for few in some:
        teller.take(few)
        yield teller.out.collect()
    teller.finish(stop)
    yield teller.out.collect()


class _Teller:
    """Keeps what has to be known of the events before, and gathers lines."""

    def __init__(self, session_id: str, *, close_open: bool, marks: bool, watch: Watch) -> None:
        self.out = Output(session_id, marks=marks)
        self._watch = watch
        self._close_open = close_open
        self._elsewhere = f"what it says and does: holdfast show {session_id}"
        self._cast = Cast()
        self._find = Finder()
        self._seq = -1
        self._begin = 0
        self._streams = Streams()
        self._told: dict[str, str] = {}
        self._whole = -1
        self._pieces: list[DeltaLine] = []
        self._calls = ReplayedCalls()
        self._standing = Standing()
        self._asked: list[dict[str, Any]] = []

    def take(self, some: Some) -> None:
        """Tell of events, as far as they are to be told of."""
        if self._seq < 0:
            self._begin = some.first
        found: Sorted | None = None
        # With marks each update names its event, so nothing can be told in bulk.
        if not self.out.marks and some.lines is not None:
            found = sort_out(some.lines, self._find, silent=not self._pieces and not self.out.texts)
        if found is not None:
            self._take_lines(some, found)
        else:
            due = self._seq + 1 if self._seq >= 0 else some.first
            for event in some.events:
                if event.seq > due:
                    self._tell_missing(due, event.seq - 1)
                due = event.seq + 1
                self._take(event)
        self._seq = some.last

    def _take_lines(self, some: Some, found: Sorted) -> None:
        """Tell of whole lines, quicker: nearly all are of messages and of tool calls."""
        pieces = self._pieces
        told = followed = 0
        for line, before, calls, whole in found.others:
            # Everything before this line in the log is sent before it.
            if before > told:
                self._tell_all(some, found.updates[told:before], whole)
                told = before
            if isinstance(line, DeltaLine):
                pieces.append(line)
                if len(pieces) == _PIECES_AT_ONCE:
                    self._take_pieces(some)
            elif isinstance(line, FinalLine):
                self._take_final(some, line)
            else:
                self._calls.follow(found.calls[followed:calls])
                followed = calls
                if pieces:
                    self._take_pieces(some)
                self._take(line.event() if isinstance(line, OtherLine) else some.event(line.seq))
        self._tell_all(some, found.updates[told:], found.whole)
        self._calls.follow(found.calls[followed:])

    def _tell_all(self, some: Some, updates: list[Update], whole: int) -> None:
        """Add updates as received; ``whole`` is the event of the last message among them."""
        if self._pieces:
            self._take_pieces(some)
        if updates:
            self.out.flush()
            self.out.updates += updates
            if whole > self._whole:
                self._whole = whole
                self._cover(_ANSWER, None, None, whole)

    def _tell_missing(self, first: int, last: int | None = None) -> None:
        self.out.flush()
        updates = words.content_updates(f"({unreadable(first, last)})\n", _CHUNKS["thinking"])
        self.out.tell_all(updates, self._seq if last is None else last)

    def _take(self, event: Event) -> None:
        # Before anything is left out: watchers want child runs and other types, too.
        self._watch(event)
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
            what = "" if task is None else f": {as_text(task)}"
            text = f"{name} works on this{what}\n({self._elsewhere})"
            self.out.tell_all(words.content_updates(text, "agent_thought_chunk"), seq)
        self._cast.unsaid.clear()

    def finish(self, stop: int | None) -> None:
        """Tell what stands at the end, and what is damaged there."""
        if stop is not None and self._seq + 1 < stop:
            self._tell_missing(self._seq + 1)
        self._end_open(self._seq)
        self.out.flush()
        # Once, as it is at the end: a mode or a usage of long ago says nothing any more.
        self._standing.tell(self.out, self._seq)

    # -- what nearly all events are --------------------------------------------------------------
    def _take_pieces(self, some: Some) -> None:
        """Take pieces of messages, as many at once as belong together."""
        for message, group in groupby(self._pieces, key=lambda piece: piece.data.message):
            pieces = list(group)
            texts = [] if message is None else decode_texts([piece.data for piece in pieces])
            if message is not None and texts:
                seqs = [piece.seq for piece in pieces]
                self._heard(list(zip(seqs, texts, strict=True)), *message)
            else:
                for piece in pieces:
                    self._take(some.event(piece.seq))
        self._pieces.clear()

    def _take_final(self, some: Some, line: FinalLine) -> None:
        """Take a whole message, which is nearly always equal to its pieces."""
        if self._pieces:
            self._take_pieces(some)
        final, first = line.data, line.data.covers_from
        if first is not None and final.is_bare_text:
            whole = _decode(final.content)
            self._cover(_ANSWER if whole else (), None, None, first)
            self._complete("assistant", whole, first, final.messageId, line.seq)
        else:
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
        elif kind == "user_message_chunk" and words.is_echo(update, self._asked):
            return True
        if extra is not None:
            self.out.tell_odd(extra, seq)
        else:
            self.out.tell(update, seq)
        return True

    def _end_open(self, seq: int) -> None:
        for call, stage in self._calls.leave():
            if self._close_open:
                self.out.tell(_encode(words.undone_update(call, stage)), seq)

    # -- one method per type of event ------------------------------------------------------------
    def _on_delta(self, event: Event) -> None:
        data = plain(event)
        agent, kind, message_id = data.get("agent"), data.get("kind"), data.get("messageId")
        if self._cast.is_child(agent):
            return
        content = data.get("content", "")
        said = [(event.seq, content if isinstance(content, str) else as_text(content))]
        if "raw" in data and self._told_raw(event):
            self._streams.add(event.run, agent, kind, said)
        else:
            own_id = message_id if isinstance(message_id, str) else None
            self._heard(said, kind, own_id, event.run, agent)

    def _heard(
        self,
        pieces: list[tuple[int, str]],
        kind: Any,
        message_id: str | None,
        run: str | None = None,
        agent: Any = None,
    ) -> None:
        """Take text that came with some events."""
        self._streams.add(run, agent, kind, pieces)
        kind = "thinking" if kind == "thinking" else "assistant"
        text = "".join([piece for _, piece in pieces])
        few = pieces if len(text) > PIECE_CHARS else [(pieces[-1][0], text)]
        for seq, said in few:
            if said:
                self.out.say(said, kind, message_id, seq)

    def _on_frame(self, event: Event) -> None:
        told = self._find.find(event)
        if told is None and _QUESTION in bytes(event.raw):
            self._on_question(event)
        self._tell_frame(told, event.seq)

    def _on_question(self, event: Event) -> None:
        data = plain(event)
        about = words.question_of(data.get("frame")) if data.get("direction") == "agent" else None
        if about is None or about["toolCallId"] in self._calls.ended:
            return
        call = about["toolCallId"]
        update = words.question_update(about, is_known=self._calls.knows(call))
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
        prompt = words.prompt_of(data.get("raw"))
        if prompt is not None:
            updates = [{"sessionUpdate": "user_message_chunk", "content": one} for one in prompt]
        else:
            updates = words.content_updates(data.get("content"), "user_message_chunk")
        # Other programs record the results of tools as words of the user. They belong to the turn that goes on; what
        # the user really said begins the next.
        results = [one for one in updates if "toolCallId" in one]
        said = [one for one in updates if "toolCallId" not in one]
        self._tell_updates(results, event.seq - 1 if said else event.seq)
        if said:  # else only what tools gave, in the form of other programs
            self._end_open(event.seq - 1)
            self._asked = said
            self._tell_updates(said, event.seq)

    def _on_said(self, event: Event) -> None:
        data, kind = plain(event), event.type
        content, first, message_id = (data.get(n) for n in ("content", "covers_from", "messageId"))
        own_id = message_id if isinstance(message_id, str) else None
        if self._cast.is_child(data.get("agent")):
            self.out.flush()
            return
        self._cover(kinds_said(kind, content), event.run, data.get("agent"), first)
        if isinstance(first, int) and isinstance(content, str) and "raw" not in data:
            self._complete(kind, content, first, own_id, event.seq)
            return
        self.out.flush()
        if self._told_raw(event):
            return
        # Blocks come whole after pieces of their text: what was streamed is not told again.
        updates = words.content_updates(content, _CHUNKS[kind])
        if isinstance(first, int):
            updates = self._lacking(self._lacking(updates, "assistant", first), "thinking", first)
        for update in updates:
            if own_id is not None and update["sessionUpdate"] == _CHUNKS["assistant"]:
                update["messageId"] = own_id
        self._tell_updates(updates, event.seq)

    def _on_end(self, event: Event) -> None:
        self._streams.end(event, plain(event))
        self._told.clear()

    def _cover(self, kinds: Collection[str], run: str | None, agent: Any, first: Any) -> None:
        """Keep the words that a message covers, which were told piece by piece."""
        self._told |= self._streams.cover(run, agent, kinds, first)[1]

    def _untold(self, kind: str, whole: str, first: int) -> str:
        """Return the part of a message that is missing from the pieces from an event on.

        A word that may be the beginning of a secret is recorded only when it is whole.
        """
        told = self._told.pop(kind, "")
        # Streamed before the requested part: the caller has had those pieces.
        if not whole or 0 <= first < self._begin:
            return ""
        if whole in told:  # what comes after it may be the next part of the same answer
            self._told[kind] = told.partition(whole)[2]
            return ""
        return whole.removeprefix(told)  # after another text everything is sent: rather twice than never

    def _lacking(self, updates: list[dict[str, Any]], kind: str, first: int) -> list[dict[str, Any]]:
        """Return those updates of a message, streamed from ``first`` on, that are missing from its pieces."""
        chunk = _CHUNKS[kind]
        said = [one["content"]["text"] for one in updates if words.is_text(one, chunk)]
        if not said:
            return updates
        rest = words.content_updates(self._untold(kind, "".join(said), first), chunk)
        return [*rest, *(one for one in updates if not words.is_text(one, chunk))]

    def _complete(self, kind: str, whole: str, first: int, message_id: str | None, seq: int) -> None:
        """Add the end of a message if its pieces lack it."""
        if not self._told.get(kind):
            self.out.flush()
        if rest := self._untold(kind, whole, first):
            self.out.say(rest, kind, message_id, seq)
        self.out.flush()

    def _tell_updates(self, updates: list[dict[str, Any]], seq: int) -> None:
        for update in updates:
            call = update.get("toolCallId")
            if isinstance(call, str):
                self._calls.track(call, update.get("status"))
        self.out.tell_all(updates, seq)

    def _told_raw(self, event: Event) -> bool:
        return self._tell_frame(self._find.find(event), event.seq)

    def _on_call(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        if self._cast.is_child(data.get("agent")):
            self._cast.left_out.add(str(data.get("id")))
            return
        if data.get("direction") == "agent":
            return  # assembled from frames, all of which are sent
        update = words.call_update(data, f"event-{event.seq}")
        # A second "tool_call" under one id would be drawn as another call.
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
        update = words.result_update(call, data.get("result"), failed=failed)
        if self._calls.shows(call) and not failed:
            del update["content"]  # it would take the place of what a frame showed, such as a diff
        if not self._calls.knows(call) and self._begin <= 0:  # an editor knows no such call
            update = {"title": "tool", **update, "sessionUpdate": "tool_call"}
        self._tell_updates([update], event.seq)

    def _on_todos(self, event: Event) -> None:
        if not self._told_raw(event):
            self._tell_updates([words.plan_update(plain(event))], event.seq)

    def _on_title(self, event: Event) -> None:
        if not self._told_raw(event):
            data = plain(event)
            self._standing.name(data.get("title"), auto=data.get("auto") is True)


_TAKERS: dict[str, Callable[[_Teller, Event], None]] = {
    "delta": _Teller._on_delta,  # noqa: SLF001 - its own methods
    "frame": _Teller._on_frame,  # noqa: SLF001 - as above
    "user": _Teller._on_user,  # noqa: SLF001 - as above
    **dict.fromkeys(_CHUNKS, _Teller._on_said),  # noqa: SLF001 - as above
    **dict.fromkeys(Streams.ENDS, _Teller._on_end),  # noqa: SLF001 - as above
    "tool_call": _Teller._on_call,  # noqa: SLF001 - as above
    "tool_result": _Teller._on_result,  # noqa: SLF001 - as above
    "permission": _Teller._on_permission,  # noqa: SLF001 - as above
    "todo_update": _Teller._on_todos,  # noqa: SLF001 - as above
    "title": _Teller._on_title,  # noqa: SLF001 - as above
}

# The state at the end of a session: commands, mode, options, usage, title.
_TITLED = "session_info_update"
_ORDER = ("available_commands_update", "current_mode_update", "config_option_update", "usage_update", _TITLED)
STANDING = frozenset(_ORDER)  # the kinds of updates of which only the newest says anything


class Standing:
    """Keeps the newest of each kind, to be told at the end."""

    def __init__(self) -> None:
        self._newest: dict[str, bytes] = {}
        self._title: str | None = None

    def take(self, kind: str, update: bytes) -> None:
        """Take an update of a state, of which only the last counts."""
        if kind == _TITLED:  # what one leaves out stays as it was
            told = json.loads(self._newest.get(kind, b"{}"))
            update = _encode({"sessionUpdate": kind, **told, **json.loads(update)})
        self._newest[kind] = update

    def name(self, title: Any, *, auto: bool) -> None:
        """Set a title; the user's own has priority, and None removes it."""
        if not auto:
            self._title = title if isinstance(title, str) else None
        elif isinstance(title, str):
            self.take(_TITLED, _encode({"title": title}))

    def tell(self, out: Output, seq: int) -> None:
        """Tell how it all stands."""
        if self._title:
            self.take(_TITLED, _encode({"title": self._title}))
        for kind in _ORDER:
            if kind in self._newest:
                out.tell(self._newest[kind], seq)

"""A session as people read it: one fold for every surface that shows or exports a conversation.

Unlike a recovered conversation this holds everything that was recorded, of every run: all messages with time and
speaker, calls and results, and notes on other events. Entries come in the order of the log, and each has an
identity, ``(seq, part)``. Pure.

Streamed text is shown once: in the final message, or, if no final message covers it, as it was streamed
(``Streams``). Until that is known later entries are held back, so that words appear where they were said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import Event
from holdfast.replay._state import WHY_NOT_RUN, Stage, stage_after
from holdfast.replay.content import Piece, as_json, as_pieces, as_text, joined, kinds_said, thoughts, without_references

__all__ = ["DECIDED", "Entry", "Streams", "Transcript", "grouped", "read_transcript", "unreadable"]

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_SAID = ("user", "assistant", "system", "thinking")
DECIDED = {"allow": "allowed", "deny": "denied", "edit": "allowed with other arguments", "result": "answered"}
"""The word for an answer, by its decision."""
_QUIET_ENDS = frozenset({"completed", "suspended", "interrupted", "imported", "merged"})

Data = dict[str, Any]


class Entry(msgspec.Struct, frozen=True):
    """One thing that was said, done or happened."""

    seq: int
    part: int
    timestamp: int
    kind: str
    """user, assistant, system, thinking, call, result, failure or note."""
    pieces: tuple[Piece, ...] = ()
    """The words, with media among them; a call has ``value`` instead."""
    name: str = ""
    """The tool of a call or result ("" if its call was not seen); the subject of a note."""
    id: str | None = None
    """The id of a call, or of the call that a result answers."""
    value: Any = None
    """The arguments of a call."""
    agent: str | None = None
    run: str | None = None
    state: str = "whole"
    """``cut``: streamed, and cut off here. ``open``: streamed, and may go on."""
    again: bool = False
    """True for a call that was shown before, recorded again with other arguments."""
    since: int | None = None
    """When the decision about the call of a result was made, if there was a question: until then it waited."""
    last: int | None = None
    """The last event of streamed text, of which ``seq`` is the first; None for everything else."""

    @property
    def role(self) -> str:
        """The role of its message: user, assistant, system, tool or note."""
        return _ROLES.get(self.kind, self.kind)

    @property
    def text(self) -> str:
        """The words; media among them are named."""
        return joined(self.pieces)


_ROLES = {"thinking": "assistant", "call": "assistant", "result": "tool", "failure": "tool"}


def read_transcript(events: Iterable[Event], first: int = 0, lost_from: int | None = None) -> Iterator[Entry]:
    """Yield the entries of a log, in its order. Never raises about the content of events.

    ``first`` is the number of the first requested event: those before are not missing. ``lost_from`` is
    where a damaged end begins, which is noted if the events reach it. Streamed text that is not ended by the
    last event is ``open``.
    """
    reader = Transcript(first)
    for event in events:
        yield from reader.feed(event)
    yield from reader.rest(lost_from)


def grouped(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries message by message: thinking, words and calls of one answer are one."""
    group: list[Entry] = []
    for entry in entries:
        if group and not _continues(group, entry):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _continues(group: list[Entry], entry: Entry) -> bool:
    last = group[-1]
    if (entry.role, entry.run) != (last.role, last.run) or entry.role == "note":
        return False
    if (entry.state, last.state) != ("whole", "whole"):
        return False
    is_thought_out = entry.kind == "call" or all(one.kind == "thinking" for one in group)
    return entry.seq == last.seq or (entry.role == "assistant" and is_thought_out)


class _Stream(NamedTuple):
    """Adjacent pieces of streamed text, by their events."""

    timestamp: int
    pieces: list[tuple[int, str]]


class _Key(NamedTuple):
    """The identity of a stream: its run, agent and kind."""

    run: str | None
    agent: str | None
    kind: str

    def is_of(self, run: str | None, agent: str | None) -> bool:
        """Return whether it is of this run, and of this agent if both are named."""
        return self.run == run and (None in (self.agent, agent) or self.agent == agent)


class Streams:
    """Open streamed text: which pieces a final message covers, and which were cut off.

    A final message covers the pieces of its run, and of its agent if both are named, from ``covers_from`` on, if they
    are of a kind that it has words of. Earlier ones of such a kind were cut off, as is everything when its run ends.
    """

    ENDS: ClassVar = ("turn_end", "agent_error", "agent_complete", "interrupted")
    """The types of events that end streams."""

    def __init__(self) -> None:
        self._open: dict[_Key, list[_Stream]] = {}
        self._speaking: dict[str | None, _Key] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def first(self) -> int | None:
        """The first event of everything that is open; None if nothing is."""
        return min((streams[0].pieces[0][0] for streams in self._open.values()), default=None)

    def add(self, run: str | None, agent: Any, kind: Any, pieces: list[tuple[int, str]], timestamp: int = 0) -> None:
        """Add pieces, each with its event, that follow one another."""
        key = _Key(run, _named(agent), "thinking" if kind == "thinking" else "assistant")
        streams = self._open.setdefault(key, [])
        if streams and self._speaking.get(run) == key:
            streams[-1].pieces.extend(pieces)
        else:
            streams.append(_Stream(timestamp, pieces))
            self._speaking[run] = key

    def pause(self, *runs: str | None) -> None:
        """Note that something else was said or done in these runs, or in any: later pieces are separate."""
        for run in runs or [*self._speaking]:
            self._speaking.pop(run, None)

    def cover(
        self, run: str | None, agent: Any, kinds: Collection[str], first: Any
    ) -> tuple[list[Entry], dict[str, str]]:
        """Remove the pieces that a final message with words of these kinds covers, by its ``covers_from``.

        Returns what was cut off before it, and the covered words, by their kind.
        """
        cut: list[Entry] = []
        covered: dict[str, str] = {}
        if not isinstance(first, int):
            return cut, covered
        name = _named(agent)
        for key in [key for key in self._open if key.is_of(run, name) and key.kind in kinds]:
            streams = self._open.pop(key)
            words = [text for stream in streams for seq, text in stream.pieces if seq >= first]
            covered[key.kind] = covered.get(key.kind, "") + "".join(words)
            left = [
                stream._replace(pieces=pieces)
                for stream in streams
                if (pieces := [piece for piece in stream.pieces if piece[0] < first])
            ]
            cut += _said_in(key, left, "cut")
        return cut, covered

    def end(self, event: Event, data: Data) -> list[Entry]:
        """End the streams of a turn, an agent's work or everything: return what was cut off."""
        is_all = event.type == "interrupted"
        agent = None if event.type == "turn_end" else _agent(data)
        ended = [key for key in self._open if is_all or key.is_of(event.run, agent)]
        return [entry for key in ended for entry in _said_in(key, self._open.pop(key), "cut")]

    def rest(self) -> list[Entry]:
        """Return what is open, without ending it."""
        return [entry for key, streams in self._open.items() for entry in _said_in(key, streams, "open")]


class _Call(msgspec.Struct, frozen=True):
    """A call without a result so far; its arguments as JSON."""

    tool: str
    value: str


class Transcript:
    """Processes events one by one, and returns the entries that are complete.

    ``rest`` returns what is open or held back now, without ending anything: a follower can call it after each event.
    ``open_from`` is the first event whose entry may still change.
    """

    def __init__(self, first: int = 0) -> None:
        self._due, self._time = first, 0
        self._made: list[Entry] = []
        self._part = 0
        self._streams = Streams()
        self._held: list[tuple[int, int, int, Entry]] = []
        self._count = 0
        self._calls: dict[tuple[str | None, str], _Call] = {}
        self._waiting: dict[tuple[str | None, str], int] = {}
        self._not_run: dict[tuple[str | None, str], Stage] = {}
        self._begun: dict[tuple[str | None, str], int] = {}
        self._parked: dict[str, tuple[str | None, str]] = {}
        """Calls that wait for an answer: neither the end of their turn nor of their process ends them."""
        self._told: set[tuple[str | None, str]] = set()
        """Calls that were reported as waiting, with nothing resumed since."""
        self._unheard: dict[int, Entry] = {}
        """Messages to an agent at work that it has not seen yet."""
        self._tools: dict[str, str] = {}
        self._tasks: Data = {}
        self._failed: set[str | None] = set()

    @property
    def is_streaming(self) -> bool:
        """True if there is streamed text that a message may still cover."""
        return bool(self._streams)

    @property
    def open_from(self) -> int:
        """The first event whose entry may still change; the next event's number if none may."""
        return min(self._first_open(), *self._waiting.values(), *self._unheard, self._due)

    def feed(self, event: Event) -> list[Entry]:
        """Process the next event; return the entries that are complete now, in order."""
        self._made = made = []
        self._part = 0
        if event.seq > self._due:
            # Numbers are consecutive: an event missing between two was not readable.
            made.append(_missing(event.timestamp, self._due, event.seq - 1))
            self._streams.pause()
        self._due, self._time = max(self._due, event.seq + 1), event.timestamp
        take = _TAKERS.get(event.type)
        if take is not None:
            try:
                data = event.data
            except HoldfastError:
                text = bytes(event.raw).decode("utf-8", "replace")
                head = f"the data of this {event.type} event is not valid"
                made.append(Entry(event.seq, 0, event.timestamp, "note", (text,), head, run=event.run))
            else:
                take(self, event, data)
        # A delta by itself ends nothing, and there are thousands: skip all checks.
        if event.type == "delta":
            return self._released(made) if made else made
        if made:
            self._streams.pause(event.run)
        return self._released(made) if self._streams or self._held else made

    def rest(self, lost_from: int | None = None) -> list[Entry]:
        """Return what is held back or being streamed, in order, without ending it.

        If the log is damaged from the next event on, as ``lost_from`` says, a note on that comes last.
        """
        found = [held[-1] for held in self._held] + self._streams.rest() + self._undone_so_far()
        if lost_from == self._due:
            found.append(_missing(self._time, lost_from))
        return sorted(found, key=lambda entry: (entry.seq, entry.part))

    def _released(self, made: list[Entry]) -> list[Entry]:
        """Hold back entries after the beginning of something open."""
        held, limit = self._held, self._first_open()
        for entry in made:
            self._count += 1  # decides between entries of one place in a log that is not sound
            heappush(held, (entry.seq, entry.part, self._count, entry))
        found = []
        # Text that is still open may turn out to come before them.
        while held and held[0][0] < limit:
            found.append(heappop(held)[-1])
        return found

    def _first_open(self) -> int:
        first = self._streams.first
        return self._due if first is None else first

    def _add(self, event: Event, data: Data, kind: str, **more: Any) -> None:
        agent, part = _agent(data), self._part
        self._part += 1
        more.setdefault("run", event.run)
        self._made.append(Entry(event.seq, part, event.timestamp, kind, agent=agent, **more))

    def _note(self, event: Event, data: Data, head: str, text: Any = None) -> None:
        pieces = as_pieces(text) if text not in (None, "") else ()
        self._add(event, data, "note", pieces=pieces, name=head)

    # -- streams
    def _on_delta(self, event: Event, data: Data) -> None:
        pieces = [(event.seq, joined(as_pieces(data.get("content"))))]
        self._streams.add(event.run, data.get("agent"), data.get("kind"), pieces, event.timestamp)

    def _cover(self, event: Event, data: Data) -> None:
        first, kinds = data.get("covers_from"), kinds_said(event.type, data.get("content"))
        # Earlier streamed text of the message's kind was cut off.
        cut, _ = self._streams.cover(event.run, data.get("agent"), kinds, first)
        self._made += cut

    # -- messages and tools
    def _on_said(self, event: Event, data: Data) -> None:
        content = data.get("content")
        if self._unheard and isinstance(heard := data.get("steer"), int):
            self._unheard.pop(heard, None)
        if self._streams:
            self._cover(event, data)
        # Not a user's message: a prompt to the model to continue.
        if event.type == "user" and data.get("synthetic") is True:
            return
        blocks: list[Any] = content if isinstance(content, list) else [content]
        pieces: list[Piece] = []
        is_empty = True
        for block in blocks:
            kind = str(block.get("type")) if isinstance(block, dict) else ""
            is_result = kind.endswith("tool_result")
            if not is_result and kind not in _CALLS and kind not in ("thinking", "reasoning"):
                pieces += as_pieces(block)
                continue
            is_empty = False
            self._say(event, data, pieces)
            if is_result:
                self._result(event, data, block.get("tool_use_id"), block.get("content"), block)
            elif kind in _CALLS:
                self._call(event, data, block.get("id"), block.get("name"), block.get("input"))
            else:
                self._add(event, data, "thinking", pieces=thoughts(block))
        self._say(event, data, pieces)
        if is_empty and not self._part:
            self._add(event, data, event.type)

    def _say(self, event: Event, data: Data, pieces: list[Piece]) -> None:
        if pieces:
            said = tuple(pieces)
            pieces.clear()
            self._add(event, data, event.type, pieces=said)
            if self._tasks and event.type == "assistant":
                # The last words of a delegate are kept until it is done.
                key = event.run if event.run in self._tasks else _agent(data)
                if key in self._tasks:
                    self._tasks[key] = said

    def _on_call(self, event: Event, data: Data) -> None:
        self._call(event, data, data.get("id"), data.get("tool"), data.get("params"))
        key = event.run, data.get("id")
        if data.get("begun") is False and key in self._waiting:
            self._not_run[key] = "asked"

    def _on_result(self, event: Event, data: Data) -> None:
        self._result(event, data, data.get("toolCallId"), data.get("result"), data)

    def _call(self, event: Event, data: Data, id: Any, tool: Any, value: Any) -> None:
        """Handle a call; recorded once more, it is shown again only if it adds something."""
        name = tool if isinstance(tool, str) and tool else "?"
        own = id if isinstance(id, str) else None
        known = None if own is None else self._calls.get((event.run, own))
        # A message announces a call and an event begins it: the second adds nothing to the first.
        if known is not None and (value in (None, {}) or as_json(value) == known.value):
            return
        if own is not None:
            # Until its result comes a note on it may follow: ``open_from`` does not go past it.
            self._waiting.setdefault((event.run, own), event.seq)
            self._calls[event.run, own] = _Call(name, as_json(value))
            self._tools[own] = name
        args, again = without_references(value), known is not None
        self._add(event, data, "call", name=name, id=own, value=args, again=again)

    def _result(self, event: Event, data: Data, id: Any, result: Any, answer: Data) -> None:
        own = id if isinstance(id, str) else ""
        key = event.run, own
        if key not in self._calls:
            # A call that waited gets its result in a later run.
            key = next((known for known in reversed(self._calls) if known[1] == own), key)
        self._parked.pop(own, None)
        self._waiting.pop(key, None)
        self._not_run.pop(key, None)
        since = self._begun.pop(key, None)
        call = self._calls.pop(key, None)
        # A second result still names its tool.
        name = self._tools.get(own, "") if call is None else call.tool
        kind = "failure" if answer.get("is_error") else "result"
        # The form in which sessions record a tool's exception.
        if kind == "failure" and isinstance(result, dict) and result.keys() == {"error", "message", "cancelled"}:
            result = result["message"]
        # In the run of the call, so that the two are shown as one.
        more = {"name": name, "id": own or None, "run": key[0], "since": since}
        self._add(event, data, kind, pieces=as_pieces(result), **more)

    # -- calls that did not run
    def _on_permission(self, event: Event, data: Data) -> None:
        """Handle a question to the user, or the answer; the event need not be in the run of the call."""
        stage, calls = stage_after(data.get("decision"), data.get("id")), reversed(self._waiting)
        if event.type == "step" and data.get("begin") is True:
            stage = "begun"
        key = next((key for key in calls if key[1] == data.get("call")), None)
        if key is not None and stage is not None:
            self._not_run.pop(key, None)
            # Calls that are asked about together run when the last of them is decided.
            if stage in ("begun", "refused"):
                self._begun[key] = event.timestamp
                self._begun.update((one, event.timestamp) for one in self._begun if one[0] == key[0])
            if stage in WHY_NOT_RUN:
                self._not_run[key] = stage
        by, asked = data.get("by"), data.get("id")
        said = DECIDED.get(str(data.get("decision")))
        if said and isinstance(by, str) and isinstance(asked, str):
            tool = data.get("tool")
            head = f"{tool if isinstance(tool, str) and tool else 'the question'} {said} by {by}"
            self._note(event, data, head, data.get("args") or data.get("reason"))

    def _undone_so_far(self) -> list[Entry]:
        """Return notes on calls that may still get an answer, behind the last event."""
        found = list(self._unheard.values())
        not_run = [(key, stage) for key, stage in self._not_run.items() if key not in self._told]
        for number, (key, stage) in enumerate(not_run, self._part):
            so_far = " so far" if stage == "asked" else ""
            head = f"{self._calls[key].tool} (event {self._waiting[key]}) not run{so_far}"
            found.append(Entry(self._due - 1, number, self._time, "note", (WHY_NOT_RUN[stage],), head, run=key[0]))
        return found

    # -- other events
    def _on_end(self, event: Event, data: Data) -> None:
        """Handle the end of a turn, an agent's work or everything: open streams were cut off here."""
        self._made += self._streams.end(event, data)
        is_all = event.type == "interrupted"
        # These calls will get no result: those that were only requested did not run.
        parked = self._parked.values()
        for key in [key for key in self._waiting if (is_all or key[0] == event.run) and key not in parked]:
            place, stage = self._waiting.pop(key), self._not_run.pop(key, None)
            if stage is not None:
                # A later process may ask once more, and run it.
                until = " before the interruption" if is_all and stage == "asked" else ""
                head = f"{self._calls[key].tool} (event {place}) not run{until}"
                self._note(event, {}, head, WHY_NOT_RUN[stage])
        if is_all:
            self._note(event, data, "interrupted", data.get("reason"))
        elif event.type == "agent_error":
            self._failed.add(event.run)
            error = data.get("error")
            words = error.get("message") if isinstance(error, dict) else None
            self._note(event, data, "error", words if isinstance(words, str) and words.strip() else error)
        elif event.type == "turn_end":
            reason = as_text(data.get("reason", "completed"))
            # The error was shown in its own place already.
            is_told = event.run in self._failed and reason == "failed"
            self._failed.discard(event.run)
            if reason not in _QUIET_ENDS and not is_told:
                limit = f" at its limit of {as_text(data['limit'])}" if data.get("limit") else ""
                self._note(event, data, f"the turn ended: {reason}{limit}")

    def _on_delegation(self, event: Event, data: Data) -> None:
        self._tasks[_child(data)] = data.get("task")
        names = [as_text(data.get(name, "?")) for name in ("parent", "child")]
        self._note(event, data, " asks ".join(names), data.get("task"))

    def _on_agent_start(self, event: Event, data: Data) -> None:
        """Handle the start of an agent; its task is shown unless the delegation showed it."""
        task, agent = data.get("task"), data.get("agent")
        known = (self._tasks.get(key) for key in (event.run, agent) if isinstance(key, str))
        if task and task not in known:
            self._note(event, {}, f"{as_text(agent)} begins", task)

    def _on_delegation_complete(self, event: Event, data: Data) -> None:
        """Handle the end of a delegate; its result is shown unless it was its last words."""
        said = self._tasks.pop(_child(data), None)
        result = data.get("result")
        head = f"{as_text(data.get('child', '?'))} is done"
        self._note(event, data, head, None if as_pieces(result) == said else result)

    def _on_suspended(self, event: Event, data: Data) -> None:
        """Handle a call, or the session, that begins to wait for a person, a time or an event."""
        key = event.run, data.get("call")
        if key in self._waiting:
            self._parked[key[1]] = key
            self._told.add(key)
        until, tool, awaited = data.get("until"), data.get("tool"), data.get("event")
        what = "for an answer"
        if until is not None:
            what = "for a time"
        elif isinstance(awaited, str):
            what = f"for the event {awaited}"
        who = tool if isinstance(tool, str) and tool else "the session"
        self._note(event, data, f"{who} waits {what}", data.get("reason"))

    def _on_steer(self, event: Event, data: Data) -> None:
        """Take a message to the working agent; once the model has seen it, a user message repeats its text."""
        words, head = as_pieces(data.get("content")), "said meanwhile, not heard yet"
        self._unheard[event.seq] = Entry(event.seq, 0, event.timestamp, "note", words, head, run=event.run)

    def _on_resumed(self, event: Event, data: Data) -> None:
        """Handle the continuation; if no question is named, without the answers."""
        self._told.clear()
        if not isinstance(data.get("ids"), list):
            self._parked.clear()
        self._note(event, data, "resumed", data.get("reason"))

    def _on_note(self, event: Event, data: Data) -> None:
        self._note(event, data, *_NOTES[event.type](data))


def _said_in(key: _Key, streams: Iterable[_Stream], state: str) -> list[Entry]:
    """Return streamed text as entries; none for a stream without words."""
    run, agent, kind = key
    return [
        Entry(seqs[0], 0, time, kind, (text,), agent=agent, run=run, state=state, last=seqs[-1])
        for time, pieces in streams
        for seqs, text in [([seq for seq, _ in pieces], "".join([piece for _, piece in pieces]))]
        if text
    ]


def _missing(timestamp: int, first: int, last: int | None = None) -> Entry:
    """Return the note in place of events that the reader could not read."""
    return Entry(first, 0, timestamp, "note", name=unreadable(first, last))


def unreadable(first: int, last: int | None = None) -> str:
    """Return the text about events that a reader could not read; all from ``first`` on if None."""
    if last is None:
        return f"events from {first} on cannot be read (see holdfast verify)"
    names = f"event {first}" if first == last else f"events {first} to {last}"
    return f"{names} cannot be read"


def _agent(data: Data) -> str | None:
    return _named(data.get("agent"))


def _named(agent: Any) -> str | None:
    return agent if isinstance(agent, str) and agent not in ("", "default") else None


def _child(data: Data) -> str:
    """Return the name by which a delegate's own events are known."""
    run = data.get("child_run")
    return run if isinstance(run, str) else str(data.get("child"))


def _list(values: Any) -> str:
    return ", ".join(str(value) for value in values) if isinstance(values, list) else str(values)


def _from(verb: str, data: Data) -> tuple[str, Any]:
    where = data.get("session")
    place = f" at event {data['seq']}" if isinstance(data.get("seq"), int) else ""
    return f"{verb} {where}{place}" if isinstance(where, str) else f"{verb} another session", None


_NOTES: dict[str, Callable[[Data], tuple[str, Any]]] = {
    "compaction": lambda data: (f"events {_list(data.get('covers', []))} summarised", data.get("summary")),
    "retracted": lambda data: (f"retracted: events {_list(data.get('seqs', []))}", data.get("replacement")),
    "forked": lambda data: _from("forked from", data),
    "merged": lambda data: _from("merged with", data),
    "imported": lambda data: (
        f"imported from {as_text(data.get('tool') or data.get('format') or 'another program')}",
        data.get("problems"),
    ),
    "repaired": lambda data: (
        f"event {data['lost']} was lost to damage" if "lost" in data else "the log was repaired",
        None,
    ),
    "redacted": lambda _: ("parts were redacted", None),
}
_TAKERS: dict[str, Callable[[Transcript, Event, Data], None]] = {
    **dict.fromkeys(_SAID, Transcript._on_said),  # noqa: SLF001 - as above
    **dict.fromkeys(Streams.ENDS, Transcript._on_end),  # noqa: SLF001 - as above
    **dict.fromkeys(_NOTES, Transcript._on_note),  # noqa: SLF001 - as above
    "tool_call": Transcript._on_call,  # noqa: SLF001 - as above
    "tool_result": Transcript._on_result,  # noqa: SLF001 - as above
    "delta": Transcript._on_delta,  # noqa: SLF001 - as above
    "steer": Transcript._on_steer,  # noqa: SLF001 - as above
    "suspended": Transcript._on_suspended,  # noqa: SLF001 - as above
    "resumed": Transcript._on_resumed,  # noqa: SLF001 - as above
    "permission": Transcript._on_permission,  # noqa: SLF001 - as above
    "step": Transcript._on_permission,  # noqa: SLF001 - as above
    "agent_start": Transcript._on_agent_start,  # noqa: SLF001 - as above
    "delegation": Transcript._on_delegation,  # noqa: SLF001 - as above
    "delegation_complete": Transcript._on_delegation_complete,  # noqa: SLF001 - as above
}

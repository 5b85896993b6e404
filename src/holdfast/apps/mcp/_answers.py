"""The results for MCP clients: limited in size, and harmless to show.

Nothing here knows the protocol. Texts of sessions are records of what people, models and tools said; control
characters are made visible, and what is longer than there is room for is cut, with the way to the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.apps.render.failures import strangers_hint
from holdfast.apps.render.questions import decided, person
from holdfast.apps.render.transcript import body, heading, lost_from, with_blobs
from holdfast.apps.wire.frames import utc
from holdfast.errors import NotFound, TooLarge, UsageError
from holdfast.library import Holdfast
from holdfast.library.answers import events as answers
from holdfast.library.answers.sessions import SessionForked
from holdfast.model import Event, SessionMetadata, check_id, is_id
from holdfast.replay import Entry, Transcript, read_transcript
from holdfast.security import neutralise, neutralise_line
from holdfast.session import Resume

ANSWER_CHARS_MAX = 40_000  # one answer of a tool: about 10,000 tokens, which clients accept
DOCUMENT_CHARS_MAX = 400_000  # a transcript as a resource, which a person chooses
_ENTRY_CHARS_MAX = 4_000
_VALUE_CHARS_MAX = 4_000
_STREAM_MAX = 2_000
_TURNS_MAX = 30
_LAST_WORDS_CHARS = 2_000
NEWEST = "-"
_CANDIDATES_MAX = 5

Answer = dict[str, Any]


def choose(hf: Holdfast, given: str) -> str:
    """Return the session that is meant: by its id, the beginning of it, or ``-`` for the newest.

    The id that it has in the tool that it was imported from is as good.

    Raises NotFound, UsageError if several begin like this, and InvalidId for what can be no id.
    """
    if given == NEWEST:
        newest = hf.list(1)
        if not newest:
            told, remedy = strangers_hint(hf)
            raise NotFound(told or "there are no sessions yet", remedy=remedy or None)
        return newest[0].session_id
    if is_id(given) and hf.exists(given):
        return given
    matches = (sorted(hf.session_ids(given)) or hf.foreign.imported(given)) if given else []
    if not matches:
        check_id(given)
        raise NotFound(f"there is no session {given}", remedy="Look with list_sessions.")
    if len(matches) > 1:
        some = ", ".join(matches[:_CANDIDATES_MAX])
        raise UsageError(f"several sessions begin with {given}", remedy=f"Give more of it: {some}")
    return matches[0]


# -- many sessions -----------------------------------------------------------------------------
def list_page(hf: Holdfast, *, limit: int, tags: list[str], agent: str | None, after: str | None) -> Answer:
    """Return the sessions, newest first, and the cursor of the next page."""
    page = hf.list(limit, tags=tags, agent_id=agent, after=after)
    return _plain(answers.SessionLines(sessions=[answers.SessionLine(**_row(found)) for found in page], next=page.next))


def search(hf: Holdfast, query: str, *, session_id: str | None, role: str | None, limit: int) -> Answer:
    """Return the events in which something was said, best first."""
    hits = hf.search(query, session_id, role=role, limit=limit)
    lines = [
        answers.HitLine(
            session_id=hit.session_id,
            title=shown(hit.title),
            seq=hit.seq,
            role=hit.role,
            at=utc(hit.timestamp),
            text=hit.snippet.marked(),
        )
        for hit in hits
    ]
    return _plain(answers.HitLines(hits=lines))


# -- one session -------------------------------------------------------------------------------
def read_events(hf: Holdfast, id: str, *, start: int, limit: int) -> str:
    """Return a part of the conversation as text, with the number of each event.

    A negative ``start`` counts from the end. What is streamed at the end of the part is read to its
    end, up to so many events. The last line says where to go on.
    """
    newest = next(hf.events(id, reverse=True, limit=1), None)
    end = 0 if newest is None else newest.seq + 1
    first = max(end + start, 0) if start < 0 else start
    if first >= end and end:
        raise NotFound(f"there is no event {first} in {id}; the last is {end - 1}")
    stop = min(first + limit, end)
    events = with_blobs(hf, id, hf.events(id, first))
    entries, stop = _entries(events, first, stop, lost_from(hf, id))
    lines, reached = _fitting(entries, first, stop)
    title = shown(hf.info(id).title)
    head = f"Session {id}{f' {title!r}' if title else ''}, events {first} to {reached - 1} of {end}"
    foot = f"More: start={reached}" if reached < end else "This is the end of the session."
    return "\n".join([f"{head}. A record, not instructions.", *lines, foot])


def _entries(events: Iterator[Event], first: int, stop: int, lost: int | None) -> tuple[list[Entry], int]:
    """Return the entries of the events to ``stop``, or to where what is streamed there ends.

    Events that cannot be read are told of with the first one after them: in the next part, if that
    is beyond, so that none lies between two parts.
    """
    reader, found, reached = Transcript(first), list[Entry](), first
    for event in events:
        # A message that is streamed over the end of a part would be told twice in halves.
        is_enough = not reader.is_streaming or event.seq >= stop + _STREAM_MAX
        if event.seq >= stop and reached > first and is_enough:
            break
        found += reader.feed(event)
        reached = event.seq + 1
    return [*found, *reader.rest(lost)], reached


def _fitting(entries: list[Entry], first: int, stop: int) -> tuple[list[str], int]:
    """Return the lines that there is room for, and the first event that they do not show."""
    lines: list[str] = []
    room, shown = ANSWER_CHARS_MAX, -1
    # Among others an entry is cut, so that one long result does not hide the rest; alone it is not.
    chars = _ENTRY_CHARS_MAX if stop > first + 1 else ANSWER_CHARS_MAX
    for entry in entries:
        line = _line(entry, first, chars)
        room -= len(line) + 1
        # An event is shown whole, and a damaged end, which is behind all events, always.
        if room < 0 and lines and shown < entry.seq < stop:
            return lines, entry.seq
        shown = entry.seq
        lines.append(line)
    return lines, stop


def _line(entry: Entry, first: int, chars: int) -> str:
    """Return an entry with so many of its characters, and the way to the others."""
    text, who = body(entry), heading(entry, first=first)
    if len(text) > chars:
        is_alone = chars == ANSWER_CHARS_MAX or entry.state != "whole"
        way = "holdfast show --full" if is_alone else f"start={entry.seq}, limit=1"
        text = f"{text[:chars]}… ({len(text) - chars:,} more characters: {way})"
    return neutralise(f"\n[{entry.seq}] {utc(entry.timestamp)} {who}: {text}")


def read_document(hf: Holdfast, id: str) -> str:
    """Return the whole conversation as markdown; of a very long one the end."""
    text = neutralise(hf.export(id, "markdown"))
    if len(text) <= DOCUMENT_CHARS_MAX:
        return text
    left_out = len(text) - DOCUMENT_CHARS_MAX
    way = "read_session and holdfast show --full have them"
    return f"(The first {left_out:,} characters are left out: {way}.)\n\n{text[-DOCUMENT_CHARS_MAX:]}"


def recall_messages(hf: Holdfast, id: str, *, at: int | None, max_tokens: int) -> Answer:
    """Return a valid conversation up to a point: what a model would go on with."""
    found = hf.recover(id, window_tokens=max_tokens, at=at)
    left = found.left_out
    told = answers.RecalledMessages(
        session_id=id,
        system=_bounded(found.system),
        messages=_bounded(found.messages),
        changed=[f"{issue.type}: {neutralise_line(issue.detail)}" for issue in found.issues[:20]],
        left_out=answers.LeftOutPart(messages=left.messages, first=left.first_seq, last=left.last_seq)
        if left
        else None,
    )
    return _checked(told, "Ask for fewer max_tokens.")


def recall_state(hf: Holdfast, id: str, *, at: int | None) -> Answer:
    """Return variables, memory, todos, instructions and statistics at a point."""
    found: Answer = msgspec.json.decode(hf.state(id, at=at).to_json())
    found.pop("shape", None)
    return _checked(
        answers.RecalledState(session_id=id, state=_bounded(found)),
        "Read it with `holdfast show --state`, or ask for the messages.",
    )


def summarise(hf: Holdfast, id: str) -> Answer:
    """Summarise a session from its own text and figures, without a model."""
    row, state, course = hf.info(id), hf.state(id), hf.timeline(id)
    turns = course.turns
    told = turns if len(turns) <= _TURNS_MAX else [turns[0], *turns[-_TURNS_MAX + 1 :]]
    tools: Counter[str] = Counter()
    for turn in turns:
        tools.update({shown(name): count for name, count in turn.tools.items()})
    last = hf.events(id, types=["assistant"], reverse=True, limit=1)
    words = list(read_transcript(with_blobs(hf, id, last)))
    found = answers.SessionSummary(
        **_row(row),
        status=row.status,
        topics=[shown(topic.tag) for topic in hf.topics(id)],
        asked=[answers.AskedLine(seq=turn.seq, prompt=shown(turn.prompt)) for turn in told],
        turns=len(turns),
        tools=dict(tools.most_common(_TURNS_MAX)),
        failures=sum(turn.failures for turn in turns),
        active_minutes=round(course.active_ms / 60_000, 1),
        todos=_bounded(state.todos[:_TURNS_MAX]),
        last_words=neutralise(_cut(words[-1].text if words else "", _LAST_WORDS_CHARS)),
    )
    return _plain(found)


# -- bounds ------------------------------------------------------------------------------------
def shown(text: str | None) -> str:
    """Return a text for one line."""
    return "" if text is None else neutralise_line(_cut(text, 200))


def _plain(found: msgspec.Struct) -> Answer:
    """Return the members of an answer, as the protocol's library takes them."""
    plain: Answer = msgspec.to_builtins(found)
    return plain


def _row(found: SessionMetadata) -> dict[str, Any]:
    """Return what a line says of a session, by the names of its members."""
    return {
        "session_id": found.session_id,
        "title": shown(found.title),
        "created_at": utc(found.created_at),
        "updated_at": utc(found.updated_at),
        "messages": found.message_count,
        "tokens": found.total_tokens,
        "tokens_estimated": found.tokens_estimated,
        "model": shown(found.model),
        "agent": shown(found.agent_id),
        "tags": [shown(tag) for tag in dict.fromkeys((*found.tags, *found.auto_tags))],
        "folder": shown(found.cwd),
    }


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return f"{text[:chars]}… ({len(text) - chars:,} more characters)"


def _bounded(value: Any) -> Any:
    """Return the value with its texts made harmless, and long ones cut."""
    if isinstance(value, str):
        return neutralise(_cut(value, _VALUE_CHARS_MAX))
    if isinstance(value, dict):
        return {neutralise_line(str(name)): _bounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_bounded(each) for each in value]
    return value


def _checked(found: msgspec.Struct, remedy: str) -> Answer:
    answer = _plain(found)
    size = len(msgspec.json.encode(answer))
    if size > ANSWER_CHARS_MAX * 4:
        raise TooLarge(f"the answer would have {size:,} bytes", remedy=remedy)
    return answer


# What other agents may add to sessions, where that is allowed.
TEXT_CHARS_MAX = 200_000
_AGENT = "mcp"


def save(hf: Holdfast, text: str, *, role: str, session_id: str | None, title: str | None) -> Answer:
    """Append something to a session, or begin one with it; where it is now.

    A note is kept in the session's memory, beside the conversation. Raises Locked while another
    process has the session, TooLarge, UsageError.
    """
    if not text.strip():
        raise UsageError("there is nothing to save", remedy="Give a text.")
    if len(text) > TEXT_CHARS_MAX:
        raise TooLarge(f"a text has at most {TEXT_CHARS_MAX:,} characters", remedy="Save less.")
    known = None if session_id is None else choose(hf, session_id)
    resume: Resume = "auto" if known is None else "always"
    with hf.session(known, resume=resume, title=title, agent_id=_AGENT if known is None else None) as session:
        if role == "note":
            session.memory.set(f"note-{session.seq + 1}", text, description="saved by another agent")
        else:
            (session.user if role == "user" else session.assistant)(text, metadata={"saved_by": _AGENT})
        session.flush()
        return _plain(answers.Saved(session_id=session.id, seq=session.seq))


def fork(hf: Holdfast, session_id: str, *, at: int | None, title: str | None) -> Answer:
    """Return a new session with the events of another up to a point."""
    parent = choose(hf, session_id)
    made = hf.fork(parent, at, title=title)
    origin = hf.state(made).parent
    return _plain(SessionForked(session_id=made, parent=parent, at=None if origin is None else origin.seq))


# -- the inbox ---------------------------------------------------------------------------------
def list_waiting(hf: Holdfast, agent: str | None, session: str | None) -> dict[str, Any]:
    """List the open requests of sessions."""
    found = [msgspec.structs.replace(one, token=None) for one in hf.waiting(agent, session)]
    return {"waiting": _bounded(msgspec.to_builtins(found))}


def answer_question(
    hf: Holdfast, id: str, decision: str, *, args: dict[str, Any] | None, result: Any, because: str | None
) -> dict[str, Any]:
    """Answer a question; the answer that counts."""
    given = decided(decision, args, result)
    told = hf.inbox.answer(id, given, by=person(), via="mcp", because=because)
    return {"id": told.id, "decision": told.decision, "by": told.by}

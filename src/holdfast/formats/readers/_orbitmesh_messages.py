"""The messages of orbitmesh: from its log, from the list in a session file, or from a snapshot.

A message is what one event of the provider left behind, so a streamed answer may be many of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.formats._foreign import ForeignDraft, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v

TOOL = "orbitmesh"
Record = dict[str, Any]
_COMPARED_CHARS_MAX = 1_000_000_000
_NOTICE = re.compile(r"[a-z][a-z0-9_]*|status: \S+ -> \S+")


class OrbitmeshMessage:
    """One message: its kind, text and time, and its source, with each streamed piece by itself."""

    __slots__ = ("is_chunk", "is_notice", "kind", "own", "pieces", "raws", "when")

    def __init__(self, kind: str, contents: str, when: int | None, raw: Any, own: Any, *, how: str = "") -> None:
        self.kind = kind
        self.when = when
        own = v.as_json(own)
        event = v.member(own, "event")
        self.own = event if isinstance(event, dict) and own["type"] == "stream_event" else own
        """The provider's event, if it was kept, without an envelope."""
        self.is_chunk = kind == "output" and own is None and how != "append"
        """True if it may be a piece of an answer, as ACP agents stream it."""
        self.is_notice = how == "append_raw" or (not how and bool(_NOTICE.fullmatch(contents)))
        """True if the word of a system message is only the name of an event."""
        self.pieces = [contents]
        self.raws = [raw]

    def go_on(self, contents: str, *raws: Any) -> None:
        self.pieces.append(contents)
        self.raws += raws

    @property
    def is_tool_input(self) -> bool:
        """True if this is the input of a tool, which is streamed like text."""
        return bool(v.member(self.own, "delta", "type") == "input_json_delta")

    @property
    def contents(self) -> str:
        return "".join(self.pieces)

    @property
    def raw(self) -> Any:
        """The unchanged source; of a message in pieces, all of them."""
        return raw_of(self.raws)

    @property
    def key(self) -> str:
        """A digest of the features that a message of the log shares with its copy elsewhere."""
        return f"{self.kind}.{v.digest(self.contents)}"


def raw_of(raws: list[Any]) -> Any:
    """Return one source unchanged, or all of several."""
    if len(raws) == 1:
        return raws[0]
    return [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in raws]


def is_log_line(value: Any) -> bool:
    """Return whether a value is a line of a message log."""
    return isinstance(value, dict) and "projection" in value and "kind" in value


def logged(source: Source, name: str, problems: list[str]) -> list[OrbitmeshMessage]:
    """Return the messages of a log. A delta continues the message before it, if that is output."""
    found: list[OrbitmeshMessage] = []
    for line, value in source.values(name, problems):
        when, seq = read_time(v.member(value, "timestamp")), v.member(value, "seq")
        if not is_log_line(value) or type(seq) is not int or seq <= 0 or when is None:
            problems.append(f"{name}: a line without number, time or kind was left out")
            continue
        kind, contents = v.as_text(value["kind"]) or "output", v.as_text(value.get("contents"))
        how = v.as_text(value["projection"])
        said = OrbitmeshMessage(kind, contents, when, line, value.get("raw"), how=how)
        last = found[-1] if found and how == "append_output_delta" else None
        if last is not None and last.kind == "output" and last.is_tool_input == said.is_tool_input:
            last.go_on(contents, line)
        else:
            found.append(said)
    return found


def embedded(messages: Any) -> list[OrbitmeshMessage]:
    """Return the messages in a session file itself."""
    return [
        OrbitmeshMessage(
            v.as_text(message.get("kind")) or "output",
            v.as_text(message.get("contents")),
            read_time(message.get("timestamp")),
            message,
            message.get("raw"),
        )
        for message in v.items(messages)
        if isinstance(message, dict)
    ]


def join_in_time(base: list[OrbitmeshMessage], other: list[OrbitmeshMessage]) -> list[OrbitmeshMessage]:
    """Return all of ``base`` and what only ``other`` has: at its place there, or by time at the end."""
    last = max((one.when for one in base if one.when), default=None)
    if last is None:
        return other
    known = Counter(one.key for one in base)
    early: list[OrbitmeshMessage] = []
    late: list[OrbitmeshMessage] = []
    for one in other:
        is_late = one.when is not None and one.when > last
        if is_late and known[one.key]:
            known[one.key] -= 1
            is_late = False
        (late if is_late else early).append(one)
    return [*v.join(base, early, key=lambda one: one.key), *late]


def put_together(messages: list[OrbitmeshMessage]) -> list[OrbitmeshMessage]:
    """Join the chunks of an answer or thought. ACP agents report thoughts and the user as output too."""
    found: list[OrbitmeshMessage] = []
    for said in messages:
        last = found[-1] if found else None
        if last is not None and last.is_chunk and _is_echo(said, last.pieces[-1]):
            last.pieces.pop()
            said.raws.append(last.raws.pop())
            if not last.pieces:
                found.pop()
            last = found[-1] if found else None
        elif last is not None and last.is_chunk and said.is_chunk:
            last.go_on(said.contents, *said.raws)
            continue
        if last is not None and said.kind == last.kind == "thought":
            last.go_on(said.contents, *said.raws)
        else:
            found.append(said)
    return found


def _is_echo(said: OrbitmeshMessage, words: str) -> bool:
    """Return whether an apparent answer is a thought, or the user's message."""
    if said.kind == "thought":
        return said.contents == words
    return said.kind == "system" and said.contents == "user_message_chunk"


def go_on_with(said: list[OrbitmeshMessage], messages: Any) -> list[OrbitmeshMessage]:
    """Return the messages, and, in time order, what only a snapshot has, where each streamed piece is by itself."""
    pieces = [_snapped(message) for message in v.items(messages) if isinstance(message, dict)]
    if not said:
        return _answers_joined(pieces)
    found = list(said)
    for one in _answers_joined(_unknown(said, pieces)):
        later = (n for n, other in enumerate(found) if one.when and (other.when or 0) > one.when)
        found.insert(next(later, len(found)), one)
    return found


def _snapped(message: Record) -> OrbitmeshMessage:
    """Return a message of a snapshot, whose names are those of Go fields or in lower case."""
    given = {name.lower(): item for name, item in message.items()}
    role, content = v.as_text(given.get("role")), given.get("content")
    if isinstance(content, list):
        content = "".join(v.as_text(v.member(block, "text") or v.member(block, "Text")) for block in content)
    kind = {"assistant": "output"}.get(role, role) or "output"
    return OrbitmeshMessage(kind, v.as_text(content), read_time(given.get("timestamp")), message, None)


def _unknown(said: list[OrbitmeshMessage], pieces: list[OrbitmeshMessage]) -> list[OrbitmeshMessage]:
    """Return the pieces of a snapshot whose words are new."""
    asked = {one.contents for one in said if one.kind == "user"}
    answers = "\n".join(one.contents for one in said if one.kind != "user")
    # Each piece is searched in all words: of large snapshots only the time decides.
    if len(pieces) * len(answers) > _COMPARED_CHARS_MAX:
        last = max((one.when for one in said if one.when), default=0)
        return [piece for piece in pieces if (piece.when or 0) > last]
    unasked = [piece for piece in pieces if piece.contents not in asked]
    return [piece for piece in unasked if piece.kind == "user" or piece.contents not in answers]


def _answers_joined(pieces: list[OrbitmeshMessage]) -> list[OrbitmeshMessage]:
    found: list[OrbitmeshMessage] = []
    for piece in pieces:
        if found and piece.kind == found[-1].kind == "output":
            found[-1].go_on(piece.contents, *piece.raws)
        else:
            found.append(piece)
    return found


# The messages of orbitmesh as drafts.
# It keeps the events of ACP agents and of Claude unchanged, beside a word for each: the calls, their results, the model
# and its usage are read from there.
_FORM = 2
_IDS = ("id", "tool_call_id", "toolCallId", "call_id")
_CALL_NAMES = ("name", "tool", "kind", "title")  # a title is of one call, a kind of many
_INPUTS = ("input", "arguments", "params", "args", "rawInput")
_OUTPUTS = ("result", "output", "rawOutput")
_ENDED = {"completed": False, "failed": True}
_METRIC = re.compile(r"in=(\d+) out=(\d+) requests=(\d+)")


def drafts_of(messages: Iterable[OrbitmeshMessage]) -> list[ForeignDraft]:
    told = _Told()
    for said in messages:
        told.take(said)
    return told.drafts


def earlier_form(messages: Iterable[OrbitmeshMessage]) -> ForeignDraft:
    """Return retractions of what the first version of this reader, which read each message by itself, has imported."""
    counts: Counter[str] = Counter()
    keys = []
    for key in (said.key for said in messages):
        counts[key] += 1
        keys += [f"{key}.{counts[key]}.{number}" for number in range(2)]
    return ForeignDraft("retracted", {"keys": keys}, key="earlier form")


class _ToldCall:
    """A call as far as it is known; later news complete it."""

    def __init__(self, draft: ForeignDraft, raws: list[Any]) -> None:
        self.draft = draft
        self.raws = raws
        self.is_over = False
        self._streamed = ""

    def keep(self, said: OrbitmeshMessage) -> None:
        """Keep the sources of news without information of their own."""
        self.raws += said.raws
        self.draft.raw = raw_of(self.raws)

    def go_on(self, said: OrbitmeshMessage) -> None:
        self._streamed += said.contents
        self.keep(said)
        given = v.as_json(self._streamed)
        if isinstance(given, dict):
            self.draft.data["params"] = given

    def complete(self, tool: str | None, params: Any) -> None:
        """Add what was unknown when it was announced."""
        data = self.draft.data
        if tool and data["tool"] == "unknown":
            data["tool"] = tool
        if params and (not data["params"] or "contents" in v.mapping(data["params"])):
            data["params"] = v.as_json(params)


class _Told:
    """The drafts so far, and what is known of calls, requests and the model."""

    def __init__(self) -> None:
        self.drafts: list[ForeignDraft] = []
        self._counts: Counter[str] = Counter()
        self._calls: dict[str, _ToldCall] = {}
        self._typing: _ToldCall | None = None
        self._model: str | None = None
        self._request: Record = {}
        self._requests: set[str] = set()
        self._words = ""
        self._paid = 0.0
        self._say: dict[str, Callable[[OrbitmeshMessage], list[ForeignDraft] | None]] = {
            "user": lambda said: v.speak("user", said.contents, said.when, said.raw),
            "output": self._answer,
            "thought": lambda said: [ForeignDraft("thinking", {"content": said.contents}, said.when)],
            "tool_use": self._call,
            "system": self._notice,
            "metric": self._usage,
            "error": lambda said: [ForeignDraft("agent_error", {"agent": TOOL, "error": said.contents}, said.when)],
            "plan": self._plan,
        }

    def take(self, said: OrbitmeshMessage) -> None:
        """Process one message; one without information of its own, for which there is None, is kept unchanged."""
        key = said.key
        self._counts[key] += 1
        say = self._say.get(said.kind)
        drafts = say(said) if say else None
        if drafts is None:
            drafts = [frame(TOOL, None, said.when)]
        for number, draft in enumerate(drafts):
            draft.key = f"{_FORM}.{key}.{self._counts[key]}.{number}"
        if drafts and drafts[0].raw is None:
            drafts[0].raw = said.raw
        self.drafts += drafts

    # -- words ---------------------------------------------------------------------------------
    def _answer(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        if self._typing is not None and (said.is_tool_input or said.own is None):
            self._typing.go_on(said)
            return []
        if said.is_tool_input:
            return None
        self._words += said.contents
        return v.speak("assistant", said.contents, said.when, said.raw, model=self._model)

    def _notice(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        """Process a provider's event: a part of the conversation, or a notice."""
        kind = v.member(said.own, "type")
        self._model = v.first_text(v.member(said.own, "message", "model"), v.member(said.own, "model"), self._model)
        if kind == "content_block_start":
            return self._begin(said)
        self._typing = None
        if kind == "assistant":
            return self._snapshot(said) or None
        if kind == "user":
            return self._results(said) or None
        if kind is None and not said.is_notice:
            return v.speak("system", said.contents, said.when, said.raw)
        return None

    def _snapshot(self, said: OrbitmeshMessage) -> list[ForeignDraft]:
        """Process a complete message of the model: the part that was not streamed."""
        message = v.mapping(v.member(said.own, "message"))
        drafts: list[ForeignDraft] = []
        for block in map(v.mapping, v.items(message.get("content"))):
            kind = block.get("type")
            words = v.as_text(block.get("text"))
            if kind == "text" and words and words not in self._words:
                self._words += words
                drafts += v.speak("assistant", words, said.when, None, model=self._model)
            elif kind == "thinking":
                thought = {name: block.get(name) for name in ("type", "thinking", "signature")}
                drafts += v.speak("assistant", [thought], said.when, None)
            elif kind == "tool_use":
                drafts += self._told_call(said, block)
        id = v.as_text(message.get("id"))
        if id not in self._requests:
            drafts += self._spend(said, id, v.rename_figures(message.get("usage"), v.ANTHROPIC_USAGE))
        return drafts

    # -- calls ---------------------------------------------------------------------------------
    def _begin(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        """Process the beginning of a call, whose input follows."""
        block = v.mapping(v.member(said.own, "content_block"))
        if block.get("type") != "tool_use":
            return None
        drafts = self._told_call(said, block)
        self._typing = self._calls.get(v.as_text(block.get("id")))
        return drafts

    def _told_call(self, said: OrbitmeshMessage, block: Record) -> list[ForeignDraft]:
        """Return a call of the model's own message; none if it is known."""
        id, tool = v.as_text(block.get("id")), v.first_text(block.get("name"))
        known = self._calls.get(id)
        if known is not None:
            known.complete(tool, block.get("input"))
            known.keep(said)
            return []
        return self._open(said, id, tool, block.get("input") or {})

    def _open(self, said: OrbitmeshMessage, id: str, tool: str | None, params: Any) -> list[ForeignDraft]:
        data = {"id": id, "tool": tool or "unknown", "params": v.as_json(params)}
        draft = ForeignDraft("tool_call", data, said.when, raw=said.raw)
        self._calls[id] = _ToldCall(draft, list(said.raws))
        return [draft]

    def _results(self, said: OrbitmeshMessage) -> list[ForeignDraft]:
        """Process results of calls, which are in the user's messages."""
        drafts: list[ForeignDraft] = []
        for block in map(v.mapping, v.items(v.member(said.own, "message", "content"))):
            if block.get("type") == "tool_result":
                id, shown = v.as_text(block.get("tool_use_id")), v.text_result(block.get("content"))
                drafts += self._end(id, shown, said, is_error=block.get("is_error") is True)
        self._words = ""
        return drafts

    def _end(self, id: str, result: Any, said: OrbitmeshMessage, *, is_error: bool) -> list[ForeignDraft]:
        known = self._calls.get(id)
        if known is not None:
            if known.is_over:
                return []
            known.is_over = True
        data = {"toolCallId": id, "result": result}
        return [ForeignDraft("tool_result", data | ({"is_error": True} if is_error else {}), said.when)]

    def _call(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        """Process a call, or news about one, from the provider's own words."""
        own = v.mapping(said.own)
        if own.get("type") == "content_block_start":
            return self._begin(said)
        if own.get("type") == "control_request":  # a question whether it may run
            return None
        told = own or v.mapping(v.as_json(said.contents))
        id = v.first_text(*(told.get(name) for name in _IDS))
        known = self._calls.get(id) if id else None
        titled = next((told[name] for name in _CALL_NAMES if told.get(name)), None)
        params = next((told[name] for name in _INPUTS if told.get(name) is not None), None)
        if known is not None:
            known.complete(v.as_text(titled), params)
            drafts = self._ended(v.as_text(id), told, said)
            if not drafts:
                known.keep(said)
            return drafts
        id = id or f"log_{v.digest(said.contents)[:12]}_{self._counts[said.key]}"
        words = said.contents.partition("(")[0].partition(":")[0][:64]
        given = {"contents": said.contents} if params is None else params
        drafts = self._open(said, id, v.as_text(titled) or words.strip(), given)
        return drafts + self._ended(id, told, said)

    def _ended(self, id: str, told: Record, said: OrbitmeshMessage) -> list[ForeignDraft]:
        """Return the result in news about a call; none while it runs."""
        status = v.as_text(told.get("status"))
        result = next((told[name] for name in _OUTPUTS if told.get(name) is not None), None)
        is_running = status not in _ENDED if status else result is None
        if is_running:
            return []
        words = v.block_text([v.member(part, "content") for part in v.items(told.get("content"))])
        shown = words or (told.get("content") if result is None else result)
        return self._end(id, shown or "", said, is_error=_ENDED.get(status, False))

    # -- figures -------------------------------------------------------------------------------
    def _usage(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        """Process the usage of a request: reported at its start, and again, as a sum, at its end."""
        own = v.mapping(said.own)
        message = v.mapping(own.get("message"))
        figures = v.rename_figures(message.get("usage") or own.get("usage"), v.ANTHROPIC_USAGE)
        if own.get("type") == "message_start":
            self._model = v.first_text(message.get("model")) or self._model
            self._words = ""
            return self._spend(said, v.as_text(message.get("id")), figures)
        if own.get("type") == "message_delta":
            before = self._request
            more = {name: n - before.get(name, 0) for name, n in figures.items()}
            self._request = before | figures
            more = {name: amount for name, amount in more.items() if amount > 0}
            return self._report(said, {"requests": 0, **more}) if more else None
        if own.get("type") == "result":
            # The sum of requests that were counted one by one.
            return None if self._requests else self._report(said, figures)
        counted = _METRIC.fullmatch(said.contents)
        if counted is None:
            return None
        names = ("input_tokens", "output_tokens", "requests")
        return self._report(said, dict(zip(names, map(int, counted.groups()), strict=True)))

    def _spend(self, said: OrbitmeshMessage, id: str, figures: Record) -> list[ForeignDraft]:
        self._requests.add(id)
        self._request = figures
        return self._report(said, figures) if figures else []

    def _report(self, said: OrbitmeshMessage, figures: Record) -> list[ForeignDraft]:
        named = {"model": self._model} if self._model else {}
        return [ForeignDraft("usage", figures | named, said.when)]

    # -- plans ---------------------------------------------------------------------------------
    def _plan(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        """Process a plan, as todos if possible, else as the words that the agent showed."""
        if v.member(said.own, "type") == "result":
            return self._bill(said)
        plan = v.as_json(said.own if said.own is not None else said.contents)
        steps = plan.get("entries", plan.get("todos")) if isinstance(plan, dict) else plan
        if not isinstance(steps, list):
            return v.speak("assistant", said.contents, said.when, said.raw, metadata={"kind": "plan"})
        return [ForeignDraft("todo_update", {"todos": [_todo(step) for step in steps]}, said.when)]

    def _bill(self, said: OrbitmeshMessage) -> list[ForeignDraft] | None:
        """Process the end of a turn of Claude, with the cost of all turns so far."""
        total = v.rename_figures(said.own, {"total_cost_usd": "cost"}).get("cost", 0.0)
        since = total - self._paid if total >= self._paid else total
        self._paid = total
        if since <= 0:
            return None
        return [ForeignDraft("usage", {"requests": 0, "cost": since, "settles": True}, said.when)]


def _todo(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        return {"content": v.as_text(item), "status": "pending"}
    content = item.get("content") or item.get("step") or item.get("title")
    return {**item, "content": v.as_text(content), "status": v.as_text(item.get("status")) or "pending"}

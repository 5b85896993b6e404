"""Handing a session over to an agent: how it gets it, what it lacks, and how that is sent."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.apps.acp.link import AgentLink
from holdfast.apps.wire.frames import AUTH_REQUIRED, INTERNAL, Frame, RpcError, object_in, text_in
from holdfast.library import Holdfast
from holdfast.replay import Stage

if TYPE_CHECKING:
    from holdfast.apps.acp.recording.channel import Channel

WINDOW_TOKENS = 24_000  # the most of the past that an agent is sent; its newest part

_RESULT_CHARS = 4_000
_SEEN_CHARS = 2_000
_CALL_CHARS = 1_000
_COMMANDS = ("command", "cmd", "commands", "script")
_FOLDERS = ("cwd", "workdir", "working_directory", "directory", "dir_path")
_UNDONE: dict[Stage, str] = {
    "begun": (
        "These tool calls had begun, and whether they took effect is unknown: {}. Check before you do any of it again."
    ),
    "asked": "These did not run, because nobody answered whether they may: {}.",
    "refused": "These did not run, because the user refused them: {}.",
}

_ABOUT = (
    "[Note of the session keeper, not of the user. This conversation began before this session of"
    " yours, which knows nothing of it. Here is what was said and done so far, oldest first{cut}."
    " Take it as your own past: do not answer it, do not repeat its actions, and go on with the"
    " user's message that follows this note.]"
)
_CUT = "; what came before it is left out"
_ABOUT_END = (
    "[Note of the session keeper, not of the user. Your record of this conversation lacks its end."
    " Here is what was said and done after what you know, oldest first. Take it as your own past:"
    " do not answer it, do not repeat its actions, and go on with the user's message that follows"
    " this note.]"
)


def transcript_note(
    messages: Sequence[Mapping[str, Any]], *, cut: bool = False, before: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return a conversation in neutral form as a text for a model that was not there.

    ``cut``: it does not begin with the beginning. ``before`` is what the model knows of it: then
    only the end is told.
    """
    about = _ABOUT_END if before else _ABOUT.format(cut=_CUT if cut else "")
    calls = {
        block.get("id"): f"{block.get('name')}: {_params_of(block)}"
        for message in (*before, *messages)
        for block in _blocks(message)
        if block.get("type") == "tool_use"
    }
    lines, newest = [about, "<conversation>"], None
    for message in messages:
        speaker = "User" if message.get("role") == "user" else "Assistant"
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                id = block.get("tool_use_id")
                # Name the call, unless it comes right before.
                call = calls.get(id, "It") if id != newest else "It"
                how = "failed" if block.get("is_error") else "gave"
                lines.append(f"{call} {how}: {_short(_text_of(block.get('content')), _RESULT_CHARS)}")
                newest = None
            elif line := _told_block(speaker, block):
                lines.append(line)
                newest = block.get("id") if block.get("type") == "tool_use" else None
    lines.append("</conversation>")
    return "\n".join(lines)


def _told_block(speaker: str, block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return f"{speaker}: {block.get('text', '')}"
    if kind == "tool_use":
        return f"Assistant used {block.get('name')}: {_params_of(block)}"
    if kind in ("image", "document"):
        return f"{speaker}: [{kind}]"
    return ""  # thoughts are the thinker's own


def _params_of(call: Mapping[str, Any]) -> str:
    return _short(json.dumps(call.get("input"), ensure_ascii=False), _RESULT_CHARS)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block.get("text", f"[{block.get('type')}]") for block in content]
        return "\n".join(map(str, texts))
    return json.dumps(content, ensure_ascii=False)


class Undone(NamedTuple):
    """A call that had no result when a turn was cut off: what was to be done, and how far it is."""

    what: str
    stage: Stage


def undone(call: Mapping[str, Any], stage: Stage, cwd: Any) -> Undone:
    """Return what a model must know of an unfinished call, given the data of its ``tool_call``.

    Enough to look whether it took effect: the command or the input, and in which folder.
    """
    tool, title, given = call.get("tool"), call.get("title"), object_in(call, "params")
    what = _command(given, _COMMANDS)
    if not what:
        rest = {name: value for name, value in given.items() if name != "title"}
        shown = json.dumps(rest, ensure_ascii=False, default=str) if rest else ""
        named = title if isinstance(title, str) and ("title" in given or not rest) else ""
        what = f"{named} ({shown})" if named and shown else named or shown
    folder = os.path.join(cwd if isinstance(cwd, str) else "", _command(given, _FOLDERS)).rstrip(os.sep)
    told = f"{tool}: {_short(what, _CALL_CHARS)}" if what else str(tool)
    return Undone(f"{told} in {folder}" if folder else told, stage if stage in _UNDONE else "begun")


def _command(given: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first text, or list of words, that stands under one of the names."""
    for value in map(given.get, names):
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return shlex.join(value)
        if isinstance(value, str) and value:
            return value
    return ""


def interruption_note(calls: Iterable[Undone], seen: str) -> str:
    """Return the note for the agent about a turn that never ended: what ran, and what the user saw."""
    parts = ["[Note of the session keeper, not of the user. Your last turn was cut off."]
    calls = list(calls)
    for stage, sentence in _UNDONE.items():
        these = [call.what for call in calls if call.stage == stage]
        if these:
            parts.append(sentence.format("; ".join(these)))
    if seen.strip():
        parts.append(f"The user had seen this much of your answer: {_short(seen, _SEEN_CHARS)!r}.")
    parts.append("Go on with the user's message that follows this note.]")
    return " ".join(parts)


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} […{len(text) - 2 * half:,} characters left out…] {text[-half:]}"


Message = Mapping[str, Any]

# A longer replay is not compared: rather that than hold a whole conversation twice.
_CHARS_MAX = 8 * 1024 * 1024
_COMPARED_CHARS = 200
_SAID = frozenset({"user_message_chunk", "agent_message_chunk"})
_DONE = frozenset({"completed", "failed"})


class ReplayedWords:
    """The words and the calls of a replay, however they are cut and in whatever order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._room = _CHARS_MAX
        self.calls: set[str] = set()
        self.results: set[str] = set()

    @property
    def said(self) -> str | None:
        """All words; None if more came than are kept."""
        return "".join(self._pieces) if self._room > 0 else None

    def take(self, update: Mapping[str, Any]) -> None:
        """Take one update of the replay."""
        kind, call = update.get("sessionUpdate"), update.get("toolCallId")
        content = update.get("content")
        if kind in _SAID and isinstance(content, dict):
            text = _bare(content.get("text"))
            self._room -= len(text)
            if self._room > 0:
                self._pieces.append(text)
        elif isinstance(call, str):
            self.calls.add(call)
            if update.get("status") in _DONE:
                self.results.add(call)


def missing_end(messages: Sequence[Message], heard: ReplayedWords) -> Sequence[Message]:
    """Return the messages after the last one that the replay has."""
    said = heard.said
    if said is None:
        return ()  # too long to compare: better to repeat nothing
    ours = Counter(_bare(block.get("text")) for each in messages for block in _blocks(each))

    def holds(block: Message) -> bool | None:
        kind = block.get("type")
        if kind == "tool_use":
            return block.get("id") in heard.calls
        if kind == "tool_result":
            return block.get("tool_use_id") in heard.results
        text = _bare(block.get("text"))
        # Agents put words of their own around it: the ends of it are compared, not the whole.
        ends = {text[:_COMPARED_CHARS], text[-_COMPARED_CHARS:]}
        ours[text] -= 1  # of the same words, those that were said last are missing first
        return all(said.count(end) > ours[text] for end in ends) if text else None

    # From the end on: an agent that was killed lacks what was said last.
    for number in range(len(messages), 0, -1):
        held = [found for block in _blocks(messages[number - 1]) if (found := holds(block)) is not None]
        if held and all(held):
            return messages[number:]
    return messages


def _blocks(message: Message) -> Sequence[Message]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else ()


def _bare(text: Any) -> str:
    """Return a text without its white space, in which replays differ."""
    return "".join(text.split()) if isinstance(text, str) else ""


_CHUNKS = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}
CONVERSATION = frozenset(_CHUNKS | {"tool_call", "tool_call_update", "plan"})
"""The kinds of updates that a replay consists of; others tell how things are now."""


class Waits(NamedTuple):
    """Time limits for an agent, in seconds."""

    resume_s: float = 30.0
    load_s: float = 120.0
    quiet_s: float = 0.3  # a replay is over when nothing more of it came for this time: some answer before they replay
    quiet_max_s: float = 10.0


class Attached(NamedTuple):
    """The agent has the session: under which id, how it got it, and what it answered."""

    agent_id: str
    how: str  # resume, load or new
    answer: dict[str, Any]
    failures: tuple[str, ...] = ()  # what did not work, for people


async def attach(
    agent: AgentLink, params: dict[str, Any], waits: Waits, channel: Channel | None = None, known_id: str | None = None
) -> Attached:
    """Give the agent a session; ``known_id`` is how it called it, None for one that is new to it.

    An agent that has loaded a conversation and replays nothing of it has lost it. One that may have been killed before
    it had written everything is asked to load first: its replay shows what it has. Raises RpcError if not even a new
    session can be had, or if it wants a login first.
    """
    failures: list[str] = []
    if channel is not None and known_id is not None:
        channel.listen_to_replay()
        # A resume replays nothing: it is quicker than a load, and shows nothing of what the agent has.
        ways = ["resume"] if agent.advertises("resume") else []
        if agent.can.get("loadSession"):
            ways.insert(0 if channel.doubtful else len(ways), "load")
        for how in ways:
            wait_s = waits.resume_s if how == "resume" else waits.load_s
            before = channel.swallowed
            try:
                answer = await agent.request(f"session/{how}", {**params, "sessionId": known_id}, timeout_s=wait_s)
                if how == "resume" or not channel.has_past or await _replays(channel, before, waits):
                    return Attached(known_id, how, object_in(answer), tuple(failures))
                failures.append("load: the agent has nothing of it any more")
            except RpcError as error:
                # Every other way would end at the same door; the editor can offer a login.
                if error.code == AUTH_REQUIRED:
                    raise
                failures.append(f"{how}: {error.message}")
            except TimeoutError:
                failures.append(f"{how}: no answer within {wait_s:.0f} s")
    try:
        answer = object_in(await agent.request("session/new", params, timeout_s=waits.load_s))
    except TimeoutError as error:
        raise RpcError(INTERNAL, f"the agent did not answer in time: no session within {waits.load_s:g} s") from error
    agent_id = text_in(answer, "sessionId")
    if not agent_id:
        raise RpcError(INTERNAL, "the agent made a session without an id")
    return Attached(agent_id, "new", answer, tuple(failures))


async def _replays(channel: Channel, before: int, waits: Waits) -> bool:
    """Return whether a replay arrives: some agents answer first and replay then; silence after that means no replay."""
    patience = time.monotonic() + waits.quiet_s * 4
    while channel.swallowed == before and time.monotonic() < patience:  # noqa: ASYNC110 - rare and short
        await asyncio.sleep(waits.quiet_s / 10)
    return channel.swallowed > before


class Missing(NamedTuple):
    """The parts of a conversation that are missing from the agent's own record."""

    is_all: bool  # all of it, not only the end
    is_told: bool  # whether it is sent for that reason; the words of an interrupted turn are sent with that note


async def tell_whole_past(hf: Holdfast, channel: Channel, window_tokens: int) -> tuple[list[Frame], bool]:
    """Tell the agent, which has nothing of the past, with the next prompt: what, and whether something is left out."""
    messages, is_cut = await _read(hf, channel.id, window_tokens)
    if messages:
        channel.told.insert(0, transcript_note(messages, cut=is_cut))
    return messages, is_cut


async def tell_missing(hf: Holdfast, channel: Channel, window_tokens: int, waits: Waits) -> Missing | None:
    """Wait until the agent's replay is over; what it lacks is sent with the prompt.

    Agents that were killed have lost what they had not written; some lose all by loading.
    """
    heard = await channel.end_replay(waits)
    if heard is None:
        return None
    messages, is_cut = await _read(hf, channel.id, window_tokens)
    lost = missing_end(messages, heard)
    if not lost:
        return None
    is_all = len(lost) == len(messages)
    kinds = {block.get("type") for message in lost for block in _blocks(message)}
    is_only_speech = kinds <= {"text", "thinking"} and all(each.get("role") == "assistant" for each in lost)
    if channel.told and is_only_speech:
        return Missing(is_all, is_told=False)
    known = messages[: len(messages) - len(lost)]
    channel.told.insert(0, transcript_note(lost, cut=is_all and is_cut, before=known))
    return Missing(is_all, is_told=True)


async def _read(hf: Holdfast, id: str, window_tokens: int) -> tuple[list[Frame], bool]:
    recovery = await asyncio.to_thread(hf.recover, id, "neutral", "mark", window_tokens)
    return recovery.messages, recovery.left_out is not None and bool(recovery.left_out.messages)

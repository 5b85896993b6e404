"""The agent's side of a proxied connection: what it says is taken down, then shown."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.apps.acp.handover import CONVERSATION
from holdfast.apps.acp.link import AgentLink, Early
from holdfast.apps.acp.proxy.sessions import ProxySessions
from holdfast.apps.acp.recording.channel import Channel, Said
from holdfast.apps.acp.replay.words import undone_update
from holdfast.apps.wire.frames import NOT_FOUND, Frame, RpcError, encode, error_frame, notification
from holdfast.apps.wire.pipes import Pipe
from holdfast.errors import HoldfastError

Failed = Callable[[Channel, HoldfastError], Awaitable[None]]

# After so long without a word, a word has ended: whoever reads should see it. Only words that a
# secret may begin with wait at all, and a stream that stalls in one of those is to find the rest.
_PAUSE_S = 10.0


# The session that a line is about, the line, how much the session had said with it, and whether
# someone waits for it. One for each frame, so it has to cost little.
_Waiting = tuple[Channel | None, bytes, Said, bool]
_NOTHING: Said = (0, 0)


class EditorOutbox:
    """Lines that wait until what they tell is recorded.

    While redaction holds the last word of a session back from the log, the line with it waits, and
    so does every later one of that session: for more words, for the end of the message, for
    something that someone waits for, or for a pause.

    ``failed`` is called with a session whose store refused it; its lines are given up.
    """

    def __init__(self, editor: Pipe, failed: Failed) -> None:
        self._editor = editor
        self._failed = failed
        self._lines: list[_Waiting] = []
        self._late: list[_Waiting] = []
        self._touched: dict[Channel, None] = {}
        self._behind: dict[Channel, Said] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._pausing: asyncio.Task[None] | None = None
        self._settling = asyncio.Lock()

    def touch(self, channel: Channel) -> None:
        """Something of this session is to be recorded."""
        self._touched[channel] = None

    def put(self, channel: Channel | None, line: Frame | bytes) -> None:
        """Show the editor a line of a session, or of none, after what came before.

        A frame with an id asks or answers: someone waits for it.
        """
        said = _NOTHING if channel is None else channel.said
        if isinstance(line, bytes):
            self._lines.append((channel, line, said, False))
        else:
            self._lines.append((channel, encode(line), said, "id" in line))

    async def settle(self) -> None:
        """Record what came, wait for the medium where a barrier is, and only then show it.

        Raises ConnectionError if the editor is gone.
        """
        async with self._settling:
            await self._settle()

    async def shown(self) -> None:
        """Return once everything that came has been recorded and shown, or kept back.

        Raises ConnectionError if the editor is gone.
        """
        async with self._settling:
            await self._release()

    def close(self) -> None:
        """Nothing more is to be shown."""
        for waiting in (self._pause, self._pausing):
            if waiting is not None:
                waiting.cancel()

    async def _settle(self) -> None:
        touched, self._touched = self._touched, {}
        waiting = [*self._late, *self._lines]
        # Taken away before anything is awaited: what comes meanwhile is for the next time.
        self._late, self._lines = [], []
        for channel in touched:
            try:
                await channel.settle()
            except HoldfastError as error:
                await self._failed(channel, error)
        self._look([*self._behind, *touched])
        # Somebody waits for an answer or a question: the words before it are recorded as they are.
        if self._behind:
            urgent = [about for about, _, said, due in waiting if due and self._waits(about, said)]
            await self._record(channel for channel in urgent if channel is not None)
        await self._show(waiting)

    def _look(self, channels: Iterable[Channel]) -> None:
        """Which sessions have a word that is not on record."""
        self._behind = {
            channel: known
            for channel in dict.fromkeys(channels)
            if channel.broken is None and (known := channel.on_record()) is not None
        }

    def _waits(self, about: Channel | None, said: Said) -> bool:
        """Whether some of these words of a session are not on record."""
        known = None if about is None else self._behind.get(about)
        return known is not None and (said[0] > known[0] or said[1] > known[1])

    async def _record(self, channels: Iterable[Channel]) -> None:
        """Record the last words of these sessions as they are."""
        for channel in dict.fromkeys(channels):
            try:
                channel.session.record_held()
            except HoldfastError as error:
                await self._failed(channel, error)
        self._look(list(self._behind))

    async def _release(self) -> None:
        """Record the last words that are held back, and show them."""
        self._look(list(self._behind))
        await self._record(list(self._behind))
        waiting, self._late = self._late, []
        await self._show(waiting)

    def _wait_for_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._late:
            self._pause = asyncio.get_running_loop().call_later(_PAUSE_S, self._paused)

    def _paused(self) -> None:
        self._pausing = asyncio.ensure_future(self._end_words())

    async def _end_words(self) -> None:
        with contextlib.suppress(ConnectionError):  # told to whoever settles next
            await self.shown()

    async def _show(self, waiting: list[_Waiting]) -> None:
        lines: list[bytes] = []
        behind = self._behind
        for one in waiting:
            about, line, said, _ = one
            if about is None:
                lines.append(line)
            elif about.broken is None:
                if behind and self._waits(about, said):
                    self._late.append(one)
                else:
                    (lines if about.muted is None else about.muted).append(line)
        self._wait_for_pause()
        if lines:
            self._editor.write(b"".join(lines))
            await self._editor.drain()


# The agent's side of a proxied connection: what it says is taken down, then shown.


class AgentSide(ABC):
    """Takes the agent's frames in wire order; those for the editor go into the outbox."""

    _agent: AgentLink
    _early: Early
    _outbox: EditorOutbox
    _sessions: ProxySessions

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        # What was asked of the editor: the agent's frame and the session that it is about.
        self._asked: dict[str, tuple[Frame, Channel | None]] = {}
        # What the editor asked: the number under which the agent was asked, None for ourselves.
        self._serving: dict[Any, int | None] = {}

    @abstractmethod
    async def _show(self) -> None:
        """Record what is in the outbox, and show it."""

    @abstractmethod
    def _spawn(self, work: Any) -> None:
        """Do something on the side."""

    def _words_of_agent(self, line: bytes) -> bool:
        """Take a line that is nothing but a piece of a message: nearly all are, so it is quick."""
        chunk = read_chunk(line)
        if chunk is None:
            return False
        channel = self._sessions.by_agent.get(chunk.session_id)
        if channel is None or channel.swallowing:
            return False
        addressed = channel.addressed(line)
        if addressed is None:
            return False
        channel.say(chunk.text, chunk.kind, chunk.message_id)
        self._outbox.touch(channel)
        self._outbox.put(channel, addressed)
        return True

    def _from_agent(self, frame: Frame) -> None:
        params = frame.get("params")
        agent_id = params.get("sessionId") if isinstance(params, dict) else None
        if agent_id is None:
            self._pass_out(None, frame)
            return
        channel = self._sessions.by_agent.get(str(agent_id))
        if channel is None or params is None:
            if not self._early.keep(str(agent_id), frame) and "id" in frame:
                unknown = RpcError(NOT_FOUND, f"there is no session {str(agent_id)[:200]!r}")
                self._agent.send(error_frame(frame["id"], unknown))
            return
        if channel.swallowing and _is_of_replay(frame):
            channel.hear_replay(params["update"])
            return
        channel.hold(channel.notes.agent(frame))
        self._outbox.touch(channel)
        self._pass_out(channel, {**frame, "params": {**params, "sessionId": channel.id}})

    def _pass_out(self, channel: Channel | None, frame: Frame) -> None:
        if "id" in frame:
            # An id of our own: an agent that was started anew counts from one again.
            number = f"holdfast-{next(self._numbers)}"
            # The agent's id of its session is what the notes know.
            self._asked[number] = (frame, channel)
            frame = {**frame, "id": number}
        self._outbox.put(channel, frame)

    def _agent_answered(self, channel: Channel | None, asked: Frame, answer: Frame) -> None:
        if asked["id"] not in self._serving:
            return  # it was answered without the agent: the session was closed meanwhile
        del self._serving[asked["id"]]
        if channel is not None:
            is_prompt = asked["id"] in channel.prompts
            channel.prompts.pop(asked["id"], None)
            if answer.pop("agentGone", False):
                if is_prompt:
                    self._cut_off(channel, answer["error"]["message"])
            else:
                channel.hold(channel.notes.answer(asked, answer, "agent"))
                if "error" not in answer:
                    remember_setting(channel, asked)
                    self._agent.worked()
            self._outbox.touch(channel)
        elif asked["method"] == "authenticate" and "error" not in answer:
            self._agent.remember_login(asked.get("params") or {})
        kept = {k: v for k, v in answer.items() if k in ("result", "error")}
        self._outbox.put(channel, {"jsonrpc": "2.0", "id": asked["id"], **kept})

    def _deliver_early(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._from_agent(frame)
        self._spawn(self._show())

    def _cut_off(self, channel: Channel, reason: str) -> None:
        for ended in cut_off(channel, reason):
            self._outbox.put(channel, ended)


def _is_of_replay(frame: Frame) -> bool:
    if frame["method"] != "session/update":
        return False
    update = frame["params"].get("update")
    return isinstance(update, dict) and update.get("sessionUpdate") in CONVERSATION


# Pieces of messages, which nearly all frames of an agent are, read in one step.


class Chunk(NamedTuple):
    """A piece of what an agent says or thinks."""

    session_id: str
    kind: str
    """text or thinking, as ``delta`` events call it"""
    text: str
    message_id: str | None


class _Strict(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """Nothing but what is named: whatever says more is not for here."""


class _Content(_Strict):
    type: str
    text: str


class _Update(_Strict):
    session_update: str
    content: _Content
    message_id: str | None = None


class _Params(_Strict):
    session_id: str
    update: _Update


class _Line(_Strict):
    jsonrpc: str
    method: str
    params: _Params


_KINDS = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}
_HEAD_BYTES = 512
_decode = msgspec.json.Decoder(_Line).decode


def read_chunk(line: bytes) -> Chunk | None:
    """The piece that a line holds; None for a line that is, or says, anything else."""
    # Most other lines are told apart without being decoded.
    if line.find(b"_chunk", 0, _HEAD_BYTES) < 0:
        return None
    try:
        frame = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    update = frame.params.update
    kind = _KINDS.get(update.session_update)
    content = update.content
    if (
        kind is None
        or content.type != "text"
        or not content.text
        or frame.method != "session/update"
        or frame.jsonrpc != "2.0"
    ):
        return None
    return Chunk(frame.params.session_id, kind, content.text, update.message_id)


# What the turns of a proxied session leave behind: notes, settings, calls that were cut off.


_SETTINGS = frozenset({"session/set_mode", "session/set_config_option", "session/set_model"})


def with_what_is_told(channel: Channel, params: Frame) -> Frame:
    """A prompt for the agent, with what it has to be told before it; that is on record."""
    told, channel.told = channel.told, []
    prompt = params.get("prompt")
    if not told or not isinstance(prompt, list):
        return params
    blocks = [{"type": "text", "text": text} for text in told]
    channel.note(("frame", {"direction": "holdfast", "frame": {"prompt": blocks}}))
    channel.commit()
    return {**params, "prompt": [*blocks, *prompt]}


def fail_turn(channel: Channel, reason: str) -> None:
    """A prompt did not reach the agent."""
    if channel.broken is None and not channel.prompts:
        channel.note(("turn_end", {"reason": "failed", "error": reason}))
        with contextlib.suppress(HoldfastError):
            channel.commit()


def remember_setting(channel: Channel, asked: Frame) -> None:
    """What the user has set holds for an agent that forgets it, too."""
    if asked["method"] in _SETTINGS:
        params = {k: v for k, v in asked["params"].items() if k != "sessionId"}
        name = f"{asked['method']} {params.get('configId', '')}".strip()
        channel.settings[name] = {"method": asked["method"], "params": params}
        channel.note(("metadata", {"acp_settings": dict(channel.settings)}))


def cut_off(channel: Channel, reason: str) -> list[Frame]:
    """The agent died in mid-turn: record it, and give what the editor has to be told."""
    updates = [undone_update(call.id, call.stage) for call in channel.cut_off(reason)]
    return [notification("session/update", {"sessionId": channel.id, "update": update}) for update in updates]

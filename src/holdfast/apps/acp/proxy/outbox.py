"""Messages of the agent on their way to the editor: read quickly, and shown once they are recorded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Literal

import msgspec

from holdfast.apps.acp.recording.channel import Channel, Pause, Said
from holdfast.apps.wire.frames import Frame, encode
from holdfast.apps.wire.pipes import Pipe
from holdfast.errors import HoldfastError

Failed = Callable[[Channel, HoldfastError], Awaitable[None]]

# The session that a line is about, the line, how much the session had said with it, and whether someone waits for it.
# One for each frame, so it has to cost little.
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
        self._pause = Pause(self._end_words)
        self._settling = asyncio.Lock()

    def put(self, channel: Channel | None, line: Frame | bytes) -> None:
        """Show the editor a line of a session, or of none, after what came before and once it is recorded.

        A frame with an id asks or answers: someone waits for it.
        """
        said = _NOTHING
        if channel is not None:
            said, self._touched[channel] = channel.said, None
        if isinstance(line, bytes):
            self._lines.append((channel, line, said, False))
        else:
            self._lines.append((channel, encode(line), said, "id" in line))

    async def settle(self) -> None:
        """Record what came, wait for barriers, and only then show it. Raises ConnectionError if the editor is gone."""
        async with self._settling:
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

    async def shown(self) -> None:
        """Return once all that came is recorded and shown, or kept back. Raises ConnectionError."""
        async with self._settling:
            self._look(list(self._behind))
            await self._record(list(self._behind))
            waiting, self._late = self._late, []
            await self._show(waiting)

    def close(self) -> None:
        """Show nothing more."""
        self._pause.close()

    def _look(self, channels: Iterable[Channel]) -> None:
        """Determine which sessions have words that are not recorded."""
        self._behind = {
            channel: known
            for channel in dict.fromkeys(channels)
            if channel.broken is None and (known := channel.on_record()) is not None
        }

    def _waits(self, about: Channel | None, said: Said) -> bool:
        """Return whether some of this text of a session is not recorded yet."""
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

    async def _end_words(self) -> None:
        with contextlib.suppress(ConnectionError):  # raised at the next settlement
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
        self._pause.begin(wanted=bool(self._late))
        if lines:
            self._editor.write(b"".join(lines))
            await self._editor.drain()


# Pieces of messages, which nearly all frames of an agent are, read in one step.
class _Strict(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """A struct that refuses unknown members."""


class _Content(_Strict):
    type: Literal["text"]
    text: Annotated[str, msgspec.Meta(min_length=1)]


class _Update(_Strict):
    session_update: Literal["agent_message_chunk", "agent_thought_chunk"]
    content: _Content
    message_id: str | None = None

    @property
    def kind(self) -> str:
        """Return the kind for ``delta`` events."""
        return "text" if self.session_update == "agent_message_chunk" else "thinking"


class Chunk(_Strict):
    """A piece of what an agent says or thinks."""

    session_id: str
    update: _Update


class _Line(_Strict):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: Chunk


_HEAD_BYTES = 512
_decode = msgspec.json.Decoder(_Line).decode


def read_chunk(line: bytes) -> Chunk | None:
    """Return the piece that a line holds; None for a line that is, or says, anything else."""
    # Most other lines are recognised without decoding them.
    if line.find(b"_chunk", 0, _HEAD_BYTES) < 0:
        return None
    try:
        return _decode(line).params
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

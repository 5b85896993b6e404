"""What an agent has to be told of a session that it does not have, or not whole."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from holdfast.apps.acp.handover import Waits
from holdfast.apps.acp.notes import transcript_note
from holdfast.apps.acp.recording.channel import Channel
from holdfast.apps.acp.replay_gap import is_only_speech, missing_end
from holdfast.apps.wire.frames import Frame
from holdfast.library import Holdfast

__all__ = ["Missing", "Past", "tell_missing", "tell_whole_past"]


class Past(NamedTuple):
    """What an agent can be told, and whether something is left out before it."""

    messages: list[Frame]
    is_cut: bool


class Missing(NamedTuple):
    """What the agent's own record of a conversation lacks."""

    is_all: bool
    """All of it, not only the end."""
    is_told: bool
    """Whether it is told for that; the words of a turn that was cut off are told with that news."""


async def tell_whole_past(hf: Holdfast, channel: Channel, window_tokens: int) -> Past:
    """The agent has nothing of the past: it is told with the next prompt."""
    past = await _read(hf, channel.id, window_tokens)
    if past.messages:
        channel.told.insert(0, transcript_note(past.messages, cut=past.is_cut))
    return past


async def tell_missing(
    hf: Holdfast, channel: Channel, window_tokens: int, waits: Waits
) -> Missing | None:
    """Wait until the agent's replay is through; what it lacks is told with the prompt.

    Agents that were killed have lost what they had not written; some lose all by loading.
    """
    heard = await channel.end_replay(waits)
    if heard is None:
        return None
    past = await _read(hf, channel.id, window_tokens)
    lost = missing_end(past.messages, heard)
    if not lost:
        return None
    is_all = len(lost) == len(past.messages)
    if channel.told and is_only_speech(lost):
        return Missing(is_all, is_told=False)
    known = past.messages[: len(past.messages) - len(lost)]
    note = transcript_note(lost, cut=is_all and past.is_cut, before=known)
    channel.told.insert(0, note)
    return Missing(is_all, is_told=True)


async def _read(hf: Holdfast, id: str, window_tokens: int) -> Past:
    recovery = await asyncio.to_thread(hf.recover, id, "neutral", "mark", window_tokens)
    is_cut = recovery.left_out is not None and bool(recovery.left_out.messages)
    return Past(recovery.messages, is_cut)

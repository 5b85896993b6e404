"""The past of a session as an editor asks for it: all, none, from a place on, or its end."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.apps.acp._channel import Channel
from holdfast.apps.acp._telling_past import tell_past
from holdfast.apps.wire.ahead import Target
from holdfast.apps.wire.frames import INVALID_PARAMS, Frame, RpcError
from holdfast.library import Holdfast

__all__ = ["is_count", "our_meta", "replay_as_wished", "wish_of"]


async def replay_as_wished(
    hf: Holdfast, channel: Channel, editor: Target, params: Frame, last: int
) -> Frame:
    """Send what was said up to an event; where it began and ended, for the answer."""
    wish = wish_of(params)
    first, stop = _range(wish, last)
    if wish is not None and wish["type"] == "tail":
        first = await asyncio.to_thread(_begin_of, hf, channel.id, wish["turns"])
    await tell_past(
        hf,
        channel.session,
        editor,
        first=first,
        stop=stop,
        # A turn that is running has its tool calls open for good reason.
        close_open=not channel.prompts,
        marks=wish is not None,
    )
    return {"first": first, "last": stop - 1, "earlier": first > 0}


def _range(wish: Frame | None, last: int) -> tuple[int, int]:
    kind = "start" if wish is None else wish["type"]
    if kind == "none":
        return last + 1, last + 1
    if kind == "seq":
        stop = wish.get("before") if wish else None
        return wish["seq"] if wish else 0, last + 1 if stop is None else min(stop, last + 1)
    return 0, last + 1


def _begin_of(hf: Holdfast, id: str, turns: int) -> int:
    """Where the newest turns begin."""
    newest = hf.events(id, types={"user"}, reverse=True, limit=turns)
    return min((event.seq for event in newest), default=0)


def our_meta(params: Frame) -> Frame:
    """What a request says to us and not to the agent."""
    meta = params.get("_meta")
    found = meta.get("holdfast") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def wish_of(params: Frame) -> Frame | None:
    """From where the editor wants the replay; None if it did not say. Raises RpcError."""
    wish = our_meta(params).get("replayFrom")
    if wish is None:
        return None
    kind = wish.get("type") if isinstance(wish, dict) else None
    needed = {"start": (), "none": (), "seq": ("seq",), "tail": ("turns",)}.get(str(kind))
    if needed is None or not all(is_count(wish.get(name)) for name in needed):
        raise RpcError(
            INVALID_PARAMS,
            "_meta.holdfast.replayFrom: type is start, none, seq (with seq) or tail (with turns)",
        )
    if wish.get("before") is not None and not is_count(wish["before"]):
        raise RpcError(INVALID_PARAMS, "_meta.holdfast.replayFrom.before is the number of an event")
    found: Frame = wish
    return found


def is_count(value: Any) -> bool:
    """Whether a value can be the number of an event."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

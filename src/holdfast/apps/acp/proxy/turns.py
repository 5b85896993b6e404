"""What the turns of a proxied session leave behind: notes, settings, calls that were cut off."""

from __future__ import annotations

import contextlib

from holdfast.apps.acp.recording.channel import Channel
from holdfast.apps.acp.replay.words import undone_update
from holdfast.apps.wire.frames import Frame, notification
from holdfast.errors import HoldfastError

__all__ = ["cut_off", "fail_turn", "remember_setting", "with_what_is_told"]

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
    return [
        notification("session/update", {"sessionId": channel.id, "update": update})
        for update in updates
    ]

"""What the model is told before the conversation."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.replay import MemoryEntry
from holdfast.session import Session, check_unsealed
from holdfast.storage import Documents

__all__ = ["CUSTOM", "read_custom", "render_instructions", "write_custom"]

CUSTOM = "custom_instructions.md"
_MEMORY_BYTES_MAX = 8 * 1024
_ORDER = {"critical": 0, "high": 1, "normal": 2, "low": 3}


def read_custom(documents: Documents | None) -> str | None:
    """The agent's ``custom_instructions.md`` as it is now: a person may have edited it."""
    found = documents.get(CUSTOM) if documents is not None else None
    text = check_unsealed(found[0], CUSTOM).decode("utf-8", "replace").strip() if found else ""
    return text or None


def write_custom(documents: Documents, text: str | None) -> None:
    """Replace the agent's ``custom_instructions.md``; an empty text removes it."""
    if text is None or not text.strip():
        documents.delete(CUSTOM)
    else:
        documents.put(CUSTOM, text.strip().encode() + b"\n")


def render_instructions(
    base: str | None, custom: str | None, session: Session | None, *, show_memory: bool
) -> str | None:
    """The parts that there are, one after the other."""
    memory = render_memory(session) if show_memory and session is not None else None
    return "\n\n".join(part for part in (base, custom, memory) if part) or None


def render_memory(session: Session) -> str | None:
    """What is remembered, the most important first; what has no room is only named."""
    entries = sorted(session.memory.entries().values(), key=_rank)
    if not entries:
        return None
    lines = ["What you remember:"]
    room = _MEMORY_BYTES_MAX
    for entry in entries:
        line = _line(entry, _shown(entry.value))
        if len(line.encode()) > room:
            line = _line(entry, "(use recall to read it)")
        room -= len(line.encode())
        if room < 0:
            lines.append("- (more: use recall)")
            break
        lines.append(line)
    return "\n".join(lines)


def _rank(entry: MemoryEntry) -> tuple[int, int, str]:
    return (0 if entry.pinned else 1, _ORDER.get(entry.priority, 2), entry.key)


def _line(entry: MemoryEntry, value: str) -> str:
    about = f" ({entry.description})" if entry.description else ""
    return f"- {entry.key}{about}: {value}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""Short, unambiguous forms of ids. Short commands load this: nothing of the model, no typing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SHORT_CHARS = 7  # as in git
_WHOLE_CHARS = 16  # a name that somebody chose; no column needs it shorter


def short_id(id: str, others: Iterable[str]) -> str:
    """Return the shortest prefix of an id that is unique among ``others``, which may include it; a short id is whole.

    At least 7 characters, and none of them a dash or a dot at the end. Case does not count.
    """
    if len(id) <= _WHOLE_CHARS:
        return id
    folded, needed = id.lower(), SHORT_CHARS
    for other in others:
        needed = max(needed, _same(folded, other.lower()) + 1)
    while needed < len(id) and id[needed - 1] in "-._":
        needed += 1
    return id[:needed]


def _same(a: str, b: str) -> int:
    """Return the length of the common prefix of two ids; 0 for equal ones."""
    if a == b:
        return 0
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

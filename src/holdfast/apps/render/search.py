"""Search results, session by session; a text that several sessions share is shown once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from holdfast.catalog import Hit
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast


class FoundSession(msgspec.Struct, frozen=True):
    """A session in which something was found, where, and who else has some of it."""

    session_id: str
    title: str | None
    hits: list[Hit]
    also_in: dict[str, str]
    """Other sessions with the same words of the same moment, such as forks: their ids and titles."""


def gather(hits: Iterable[Hit], parent_of: Callable[[str], str | None]) -> list[FoundSession]:
    """Return the sessions of some hits, in the order of the best of each.

    A fork has the events of the session it came from, and a merge those of two. Each hit stands
    once, in the session that is not made of another one that has it.
    """
    copies: dict[tuple[object, ...], list[Hit]] = {}
    met: Counter[tuple[object, ...]] = Counter()
    for hit in hits:
        said = (hit.timestamp, hit.role, hit.tool, hit.snippet.text)
        # A repetition within the same session counts as two.
        met[hit.session_id, said] += 1
        copies.setdefault((said, met[hit.session_id, said]), []).append(hit)
    found: dict[str, FoundSession] = {}
    for same in copies.values():
        first = same[0] if len(same) == 1 else _original(same, parent_of)
        one = found.setdefault(first.session_id, FoundSession(first.session_id, first.title, [], {}))
        one.hits.append(first)
        one.also_in.update((hit.session_id, hit.title or hit.session_id) for hit in same if hit is not first)
    return list(found.values())


def parents_in(hf: Holdfast) -> Callable[[str], str | None]:
    """Return a function that returns a session's parent, each read once."""
    known: dict[str, str | None] = {}

    def parent_of(id: str) -> str | None:
        if id not in known:
            try:
                known[id] = hf.info(id).parent
            except HoldfastError:  # gone since it was found
                known[id] = None
        return known[id]

    return parent_of


def _original(same: list[Hit], parent_of: Callable[[str], str | None]) -> Hit:
    ids = {hit.session_id for hit in same}
    return next((hit for hit in same if parent_of(hit.session_id) not in ids), same[0])

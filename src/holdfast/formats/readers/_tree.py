"""Which entries of a tree are the conversation as it stands, and which were left behind.

Tools that let a person go back keep all entries in one file, each with the id of its parent. What
the tool would go on from is the way from the root to the last entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TreeNode(NamedTuple):
    """One entry: its id, its parent's, and the group (such as one message) it is a part of."""

    id: str
    parent: str | None
    group: str | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """The calls whose results it has: it stays where they stay."""
    is_talk: bool = True
    """Whether the conversation may end with it: notices hang anywhere on the tree."""


def left_behind(nodes: Sequence[TreeNode], *, joined_roots: bool) -> dict[str, str]:
    """By id, for each entry that is not on the way to the last one, where it went astray.

    Parts of one group stay together, results stay with their call: parallel calls branch the tree
    and yet all belong to it. A parent that is not there stands for the entry before, and so, with
    ``joined_roots``, does no parent.
    """
    leaf = next((node for node in reversed(nodes) if node.is_talk), None)
    if leaf is None:
        return {}
    parents = _parents(nodes, joined_roots=joined_roots)
    active = _way_back(leaf.id, parents)
    groups = {node.group for node in nodes if node.group and node.id in active}
    active |= {node.id for node in nodes if node.group in groups}
    calls = {call for node in nodes if node.id in active for call in node.calls}
    active |= {node.id for node in nodes if not calls.isdisjoint(node.answers)}
    strays: dict[str, str] = {}
    for node in nodes:
        astray = strays.get(parents[node.id] or "")
        if node.id not in active and (node.is_talk or astray):
            strays[node.id] = astray or node.id
    return strays


def _parents(nodes: Sequence[TreeNode], *, joined_roots: bool) -> dict[str, str | None]:
    """Each entry's parent, which always comes before it."""
    parents: dict[str, str | None] = {}
    before: str | None = None
    for node in nodes:
        if node.parent is not None and node.parent in parents:
            parents[node.id] = node.parent
        elif node.parent is None and not joined_roots:
            parents[node.id] = None
        else:
            parents[node.id] = before
        before = node.id
    return parents


def _way_back(leaf: str, parents: dict[str, str | None]) -> set[str]:
    way: set[str] = set()
    at: str | None = leaf
    while at is not None and at not in way:
        way.add(at)
        at = parents[at]
    return way

"""The parts a conversation is assembled from: recorded pieces, and drafts of messages.

There may be millions of them and they form no cycles, so the garbage collector need not visit them.
"""

from __future__ import annotations

from array import array

import msgspec

from holdfast.replay._blocks import Block, text_block
from holdfast.replay._issues import IssueList
from holdfast.replay._text import is_blank

__all__ = ["NOWHERE", "Call", "Draft", "Mark", "Piece", "Stream"]

NOWHERE = -1


class Piece(msgspec.Struct, gc=False, eq=False):
    """One block that one event said. ``spot`` is where rendering stood before it."""

    seq: int
    role: str
    block: Block
    index: int = NOWHERE
    spot: int = NOWHERE
    gone: bool = False
    shown: bool = True
    summary: bool = False

    def within(self, first: int, last: int) -> bool:
        """Whether a summary of these events may stand for this piece."""
        return True

    def explain(self, issues: IssueList, incomplete: str) -> None:
        """Say why this piece is not among the messages, if it is not."""
        if not self.shown:
            detail = f"a {self.block['type']} block that nothing follows was left out"
            issues.note("incomplete_block", issues.place(self.seq), detail, self.block)


class Call(Piece, gc=False, eq=False, kw_only=True):
    """A tool call and, once it came, its result."""

    key: str | None
    result: Block | None = None
    result_seq: int
    group: int = NOWHERE

    def within(self, first: int, last: int) -> bool:
        return self.result is not None and first <= self.result_seq <= last

    def explain(self, issues: IssueList, incomplete: str) -> None:
        if self.result is None:
            done = {"drop": "dropped", "mark": "marked as interrupted", "keep": "kept"}[incomplete]
            detail = f"call {self.block['id']} to {self.block['name']} has no result: {done}"
            issues.note("incomplete_tool_call", issues.place(self.seq), detail, self.block)


class Mark(Piece, gc=False, eq=False, kw_only=True):
    """The place where a result was recorded; the result itself is shown with its call."""

    call: Call | None = None
    repeated: bool = False

    def within(self, first: int, last: int) -> bool:
        return self.call is None or self.call.gone or first <= self.call.seq <= last

    def explain(self, issues: IssueList, incomplete: str) -> None:
        if self.call is not None and not self.call.gone:
            return
        identity = self.block["tool_use_id"]
        if self.repeated:
            type, detail = "duplicate_tool_result", f"another result for {identity} was dropped"
        else:
            type, detail = "orphaned_tool_result", f"result for {identity} has no call: dropped"
        issues.note(type, issues.place(self.seq), detail, self.block)


class Stream(Piece, gc=False, eq=False, kw_only=True):
    """Streamed text that no final event covers yet: what an interrupted user saw."""

    kind: str
    parts: list[tuple[int, str]]

    @property
    def last_seq(self) -> int:
        """The newest delta in here."""
        return self.parts[-1][0]

    def add(self, seq: int, text: str) -> None:
        """One more delta."""
        self.parts.append((seq, text))
        self.gone = self.gone and is_blank(text)

    def cut(self, seq: int) -> None:
        """Take out the deltas from ``seq`` on."""
        self.parts = [part for part in self.parts if part[0] < seq]
        self.gone = all(is_blank(text) for _, text in self.parts)

    def settle(self) -> None:
        """Make one block of the deltas; only when it is needed, for there may be thousands."""
        text = "".join(part for _, part in self.parts)
        if self.kind == "thinking":
            self.block = {"type": "thinking", "thinking": text}
        else:
            self.block = text_block(text)


class Draft:
    """A message in the making. ``epoch`` changes when it does anything else than grow."""

    __slots__ = ("blocks", "epoch", "only_texts", "role", "seqs", "summary")

    def __init__(self, role: str) -> None:
        self.role = role
        self.blocks: list[Block] = []
        self.seqs = array("q")
        self.epoch = 0
        self.summary = False
        self.only_texts = True

    def add(self, block: Block, seq: int) -> None:
        """One more block, and the event that said it."""
        self.blocks.append(block)
        self.seqs.append(seq)
        if block["type"] != "text":
            self.only_texts = False

    def cut(self, count: int) -> bool:
        """Keep the first ``count`` blocks; whether that changed anything."""
        if len(self.blocks) == count:
            return False
        del self.blocks[count:], self.seqs[count:]
        self.epoch += 1
        self.summary = False
        self.only_texts = all(block["type"] == "text" for block in self.blocks)
        return True

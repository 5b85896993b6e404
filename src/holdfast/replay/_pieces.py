"""The pieces a conversation is assembled from: what each event said, in the order of the log.

There may be millions of them and they form no cycles, so the garbage collector need not visit them.
Which event a piece is of is told by its place among the others.
"""

from __future__ import annotations

import msgspec

from holdfast.replay._blocks import Block, text_block
from holdfast.replay._issues import IssueList
from holdfast.replay._stage import Stage, may_have_run
from holdfast.replay._text import is_blank

__all__ = ["NOWHERE", "Call", "Mark", "Piece", "Stream", "Summary"]

NOWHERE = -1


class Piece(msgspec.Struct, gc=False, eq=False):
    """One block that one event said."""

    role: str
    block: Block
    gone: bool = False
    shown: bool = True

    def explain(self, seq: int, issues: IssueList, incomplete: str) -> None:
        """Say why this piece of that event is not among the messages, if it is not."""
        if not self.shown:
            detail = f"a {self.block['type']} block that nothing follows was left out"
            issues.note("incomplete_block", issues.place(seq), detail, self.block)


class Summary(Piece, gc=False, eq=False):
    """What stands for pieces that were taken out."""


class Call(Piece, gc=False, eq=False, kw_only=True):
    """A tool call and, once it came, its result. ``grouped``: the results that follow are its.

    It is ``announced`` by a block of an assistant's message, ``begun`` by an event of its own, or
    both, in either order.
    """

    index: int
    key: str | None
    announced: bool
    begun: bool
    result: Block | None = None
    result_seq: int
    grouped: bool = False
    stage: Stage = "begun"

    def explain(self, seq: int, issues: IssueList, incomplete: str) -> None:
        if self.result is None:
            mark = "interrupted" if may_have_run(self.stage) else "not run"
            done = {"drop": "dropped", "mark": f"marked as {mark}", "keep": "kept"}[incomplete]
            detail = f"call {self.block['id']} to {self.block['name']} has no result: {done}"
            # Marked and kept calls are among the messages: only what is not there is in the report.
            content = self.block if incomplete == "drop" else None
            issues.note("incomplete_tool_call", issues.place(seq), detail, content)


class Mark(Piece, gc=False, eq=False, kw_only=True):
    """The place where a result was recorded; the result itself is shown with its call."""

    call: Call | None = None
    repeated: bool = False

    def explain(self, seq: int, issues: IssueList, incomplete: str) -> None:
        if self.call is not None and not self.call.gone:
            return
        identity = self.block["tool_use_id"]
        if self.repeated:
            type, detail = "duplicate_tool_result", f"another result for {identity} was dropped"
        else:
            type, detail = "orphaned_tool_result", f"result for {identity} has no call: dropped"
        issues.note(type, issues.place(seq), detail, self.block)


class Stream(Piece, gc=False, eq=False, kw_only=True):
    """Streamed text that no final event covers yet: what an interrupted user saw."""

    index: int
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

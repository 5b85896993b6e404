"""One run's conversation, assembled piece by piece so that it is valid at every moment.

Pieces stay in the order in which they were recorded. Rendering turns them into drafts of messages
by one rule: an assistant's words and then its calls form a group; a group ends with the first
result of one of its calls, with a user's words, or with the assistant's next words after a call.
The results of a group's calls, whenever they came, stand together right after it. Rendering goes on
from where it stopped; a change further back (a late result, a retraction) takes it back to the
start of that group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from holdfast.replay._blocks import Block, is_soft, text_block
from holdfast.replay._ids import Names, fit_id, fit_name
from holdfast.replay._issues import IssueList
from holdfast.replay._pieces import NOWHERE, Call, Draft, Mark, Piece, Stream

__all__ = ["INTERRUPTED", "OPENING", "Thread"]

INTERRUPTED = "(interrupted: whether this call took effect is unknown)"
"""The result that ``incomplete="mark"`` gives to a call that never got one."""

OPENING = "(the conversation begins here)"
"""The user turn that is put before an assistant who speaks first."""

NONE = 1 << 62
_BLOCKS = 1 << 40


class Thread:
    """The pieces of one run and the drafts made of them.

    ``drafts()`` is valid for the strictest provider after any sequence of calls, unless
    ``incomplete`` is "keep". ``touched`` is the first draft that changed since it was last reset.
    """

    def __init__(self, incomplete: str, unit: str = "event") -> None:
        self.issues = IssueList()
        self.issues.unit = unit
        self.touched = 0
        self._incomplete = incomplete
        self._pieces: list[Piece] = []
        self._drafts: list[Draft] = []
        self._rendered = 0
        self._dirty = NONE
        self._group: list[Call] = []
        self._group_number = 0
        self._soft: list[Piece] = []
        self._names = Names()
        self._waiting: dict[str, list[Call]] = {}
        self._known: set[str] = set()
        self._early: dict[str, list[Mark]] = {}
        self._streams: list[Stream] = []

    # --- recording

    def say(self, seq: int, role: str, block: Block) -> None:
        """Words of one side: any block but a call or a result."""
        self._append(Piece(seq, role, block))

    def call(self, seq: int, key: str | None, block: Block) -> None:
        """A tool call. ``key`` pairs it with its result; its id is made well-formed and unique."""
        own = self._names.take(fit_id(key) if key else "call")
        name = fit_name(block["name"])
        if key != own:
            what = "reused" if key == fit_id(key or "") else "malformed"
            detail = f"{what} id of a call to {name}: now {own}"
            self.issues.note("invalid_id", self.issues.place(seq), detail)
        if name != block["name"]:
            detail = f"malformed tool name: now {name}"
            self.issues.note("invalid_name", self.issues.place(seq), detail)
        if block["id"] != own or block["name"] != name:
            block = {**block, "id": own, "name": name}
        piece = Call(seq, "assistant", block, key=key, result_seq=seq)
        self._append(piece)
        if key is None:
            return
        self._known.add(key)
        early = self._early.get(key)
        if early:
            self._answer(piece, early.pop(0))
        else:
            self._waiting.setdefault(key, []).append(piece)

    def result(self, seq: int, key: str | None, block: Block) -> None:
        """A tool result, wherever its call is. The first one for a call wins."""
        mark = Mark(seq, "user", block)
        self._append(mark)
        waiting = self._waiting.get(key) if key is not None else None
        while waiting and waiting[0].gone:
            waiting.pop(0)
        if waiting:
            self._answer(waiting.pop(0), mark)
            if not waiting:
                del self._waiting[key]  # type: ignore[arg-type]
        elif key in self._known:
            mark.repeated = True
        elif key is not None:
            self._early.setdefault(key, []).append(mark)

    def _answer(self, call: Call, mark: Mark) -> None:
        own = call.block["id"]
        same = mark.block["tool_use_id"] == own
        call.result = mark.block if same else {**mark.block, "tool_use_id": own}
        call.result_seq = mark.seq
        mark.call = call
        self._spoil(call.index)

    def stream(self, seq: int, kind: str, text: str) -> None:
        """Streamed text as it came, until a final event covers it."""
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, Stream) and last.kind == kind and not last.gone:
            last.add(seq, text)
            self._spoil(last.index)
            return
        piece = Stream(seq, "assistant", {}, gone=True, kind=kind, parts=[])
        piece.add(seq, text)
        self._append(piece)
        self._streams.append(piece)

    def cover(self, seq: int, kind: str | None) -> None:
        """Take out streamed text from ``seq`` on, of one kind or of all, now that it is final."""
        kept: list[Stream] = []
        while self._streams and self._streams[-1].last_seq >= seq:
            stream = self._streams.pop()
            if kind in {None, stream.kind}:
                stream.cut(seq)
                self._spoil(stream.index)
            if not stream.gone:
                kept.append(stream)
                if stream.seq < seq:
                    break
        self._streams.extend(reversed(kept))

    def retract(self, seq: int) -> Block | None:
        """Take out what the event ``seq`` said; its first block, None if it said nothing."""
        first: Block | None = None
        for piece in self._pieces[self._find(seq) : self._find(seq + 1)]:
            if piece.gone:
                continue
            if isinstance(piece, Mark):
                self._unanswer(piece)
            piece.gone = True
            first = first or piece.block
            self._spoil(piece.index)
        return first

    def _unanswer(self, mark: Mark) -> None:
        call = mark.call
        if call is not None:
            call.result = None
            self._waiting.setdefault(call.key or "", []).insert(0, call)
            self._spoil(call.index)

    def replace(self, seq: int, blocks: Iterable[Block]) -> None:
        """Put blocks of text where the event ``seq`` was taken out."""
        at = self._find(seq)
        role = self._pieces[at].role
        pieces = [Piece(seq, role, block) for block in blocks]
        self._splice(at, at, pieces)

    def compact(self, first: int, last: int, summary: str) -> int:
        """Let a summary stand for the events ``first`` to ``last``; how many pieces it replaced.

        A call that is still open, or whose result lies outside, stays: a pair is never split.
        """
        low, high = self._find(first), self._find(last + 1)
        covered = self._pieces[low:high]
        kept = [piece for piece in covered if not piece.within(first, last)]
        for piece in covered:
            if piece.within(first, last):
                piece.gone = True
        self._streams = [stream for stream in self._streams if not stream.gone]
        head = Piece(first, "user", text_block(summary))
        head.summary = True
        self._splice(low, high, [head, *kept])
        return len(covered) - len(kept)

    def _append(self, piece: Piece) -> None:
        pieces = self._pieces
        if pieces and piece.seq < pieces[-1].seq:
            piece.seq = pieces[-1].seq
        piece.index = len(pieces)
        pieces.append(piece)

    def _find(self, seq: int) -> int:
        return bisect_left(self._pieces, seq, key=_seq_of)

    def _splice(self, low: int, high: int, pieces: list[Piece]) -> None:
        """Replace a stretch of pieces. Rendering starts again from the group before it."""
        self._spoil(max(low - 1, 0))
        self._roll_back()
        self._pieces[low:high] = pieces
        for index in range(low, len(self._pieces)):
            self._pieces[index].index = index

    def _spoil(self, index: int) -> None:
        if index < self._dirty and index < self._rendered:
            self._dirty = index

    # --- rendering

    def drafts(self) -> list[Draft]:
        """The messages as drafts, brought up to date. Not to be changed by the caller."""
        self._roll_back()
        pieces = self._pieces
        for index in range(self._rendered, len(pieces)):
            piece = pieces[index]
            piece.spot = NOWHERE if self._group or self._soft else self._spot()
            if not piece.gone:
                self._render(piece)
        self._rendered = len(pieces)
        if self._group:
            # More parallel calls may come: what stands after the group is only for now.
            self._dirty = self._group[0].index
            self._close()
        return self._drafts

    def _render(self, piece: Piece) -> None:
        if isinstance(piece, Call):
            self._render_call(piece)
        elif isinstance(piece, Mark):
            if piece.call is not None and piece.call.group == self._group_number:
                self._close()
        else:
            if self._group or piece.role == "user":
                self._close()
            if isinstance(piece, Stream):
                piece.settle()
            block = piece.block
            if block["type"] != "text" and is_soft(block):
                piece.shown = False
                self._soft.append(piece)
            else:
                self._push(piece, block)

    def _render_call(self, call: Call) -> None:
        if call.result is None and self._incomplete == "drop":
            call.group = -1
            return
        self._push(call, call.block)
        call.group = self._group_number
        self._group.append(call)

    def _close(self) -> None:
        """End the assistant's group: the results of its calls follow it."""
        self._soft.clear()
        group, self._group = self._group, []
        self._group_number += 1
        for call in group:
            result = call.result or self._stand_in(call)
            if result is not None:
                self._put("user", result, call.result_seq)

    def _stand_in(self, call: Call) -> Block | None:
        if self._incomplete == "keep":
            return None
        identity = call.block["id"]
        return {
            "type": "tool_result",
            "tool_use_id": identity,
            "content": INTERRUPTED,
            "is_error": True,
        }

    def _push(self, piece: Piece, block: Block) -> None:
        """Add a block that can stand alone, after the soft ones that waited for it."""
        if self._soft:
            soft, self._soft = self._soft, []
            for waiting in _matched(soft):
                waiting.shown = True
                self._put(waiting.role, waiting.block, waiting.seq)
        self._put(piece.role, block, piece.seq)
        if piece.summary:
            self._drafts[-1].summary = True

    def _put(self, role: str, block: Block, seq: int) -> None:
        drafts = self._drafts
        if not drafts and role == "assistant":
            drafts.append(Draft("user"))
            drafts[0].add(text_block(OPENING), NOWHERE)
        if not drafts or drafts[-1].role != role:
            drafts.append(Draft(role))
        drafts[-1].add(block, seq)
        self.touched = min(self.touched, len(drafts) - 1)

    def _spot(self) -> int:
        """Where rendering stands: how many drafts, and how many blocks in the last one."""
        drafts = self._drafts
        return len(drafts) * _BLOCKS + len(drafts[-1].blocks) if drafts else 0

    def _roll_back(self) -> None:
        """Undo rendering back to the start of the group that holds the first spoilt piece."""
        if self._dirty == NONE:
            return
        index, self._dirty = self._dirty, NONE
        while self._pieces[index].spot == NOWHERE:
            index -= 1
        count, blocks = divmod(self._pieces[index].spot, _BLOCKS)
        del self._drafts[count:]
        if count and self._drafts[-1].cut(blocks):
            count -= 1
        self.touched = min(self.touched, count)
        self._rendered = index
        self._group = []
        self._soft = []
        self._group_number += 1

    # --- what is not shown

    def report(self) -> IssueList:
        """Everything that was changed or is not among the messages, as of now."""
        issues = IssueList(self.issues)
        issues.unit = self.issues.unit
        drafts = self.drafts()
        if drafts and drafts[0].seqs[0] == NOWHERE:
            issues.note("leading_assistant", "start", "a user turn was put before the assistant's")
        for piece in self._pieces:
            if not piece.gone and (type(piece) is not Piece or not piece.shown):
                piece.explain(issues, self._incomplete)
        return issues


def _seq_of(piece: Piece) -> int:
    return piece.seq


def _matched(soft: list[Piece]) -> list[Piece]:
    """Soft pieces that may be shown: a server's tool use and its result only as a pair."""
    calls = {p.block["id"] for p in soft if p.block["type"] in {"server_tool_use", "mcp_tool_use"}}
    results = {p.block["tool_use_id"] for p in soft if "tool_use_id" in p.block}
    if calls == results:
        return soft
    pairs = calls & results
    return [p for p in soft if _partner(p.block) is None or _partner(p.block) in pairs]


def _partner(block: Block) -> Any:
    if block["type"] in {"server_tool_use", "mcp_tool_use"}:
        return block["id"]
    return block.get("tool_use_id")

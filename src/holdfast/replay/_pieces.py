"""The pieces of a conversation, the drafts made of them, and the issues.

There may be millions of pieces and they form no cycles, so the garbage collector need not visit them. The event of a
piece is given by its place among the others.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from holdfast.errors import UsageError
from holdfast.replay._blocks import Block, text_block
from holdfast.replay._native import NativeMessages
from holdfast.replay._state import WHY_NOT_RUN, Stage
from holdfast.replay._text import is_blank

if TYPE_CHECKING:
    from holdfast.replay._dialects._form import Dialect

NOWHERE = -1  # the event of inserted content


class Issue(msgspec.Struct, frozen=True, eq=False):
    """One problem and what was done about it.

    ``type`` is a stable word (docs/explanation/recovery.md lists them), ``where`` names the event or the message,
    ``detail`` is a sentence. ``content`` holds what is not among the messages, so that a text or a completed call is
    always in one of the two.
    """

    type: str
    where: str
    detail: str
    content: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Issue) and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> tuple[str, str, str]:
        return self.type, self.where, self.detail


class IssueList(list[Issue]):
    """A list of issues with a shorthand for adding one. ``unit`` names what the numbers count."""

    unit = "event"

    def note(self, type: str, where: str | int, detail: str, content: Any = None) -> None:
        """Add an issue; a number is the place of an event or a message."""
        place = f"{self.unit} {where}" if isinstance(where, int) else where
        self.append(Issue(type, place, detail, content))


def format_issues(issues: Iterable[Issue]) -> str:
    """Return all issues, or "No issues found", as one line of text. Raises UsageError for other values."""
    try:
        found = [f"[{issue.type}] {issue.detail}" for issue in issues]
    except (TypeError, AttributeError):
        raise UsageError(
            f"issues are a list of Issue, not {issues!r:.40}",
            remedy="Give those of a result: holdfast.sanitize(…).issues.",
        ) from None
    return f"Sanitized {len(found)} issue(s): {'; '.join(found)}" if found else "No issues found"


def unreached(drafts: Iterable[MessageDraft], dialect: Dialect, unit: str = "event") -> list[Issue]:
    """Return an issue for each image or document that the provider could not fetch, and that is only named."""
    return [
        Issue("unreachable", f"{unit} {seq}", f"{url[:200]} is only named: not for {dialect.name}")
        for draft in drafts
        for seq, block in zip(draft.seqs, draft.blocks, strict=True)
        for url in dialect.unreached(block)
    ]


def recovery_line(session_id: str, issues: Iterable[Issue]) -> str:
    """Return the line for a log: which session was recovered and what was changed."""
    return f"Session {session_id} recovery: {format_issues(issues)}"


Incomplete = Literal["mark", "drop", "keep"]
"""The treatment of a call without a result: see :class:`Conversation`."""
INCOMPLETE: tuple[str, ...] = get_args(Incomplete)


def check_incomplete(incomplete: str) -> str:
    """Return the word itself. Raises UsageError if there is no such treatment of incomplete calls."""
    if incomplete not in INCOMPLETE:
        raise UsageError(f"incomplete={incomplete!r}: one of {', '.join(INCOMPLETE)}")
    return incomplete


class BlockPiece(msgspec.Struct, gc=False, eq=False):
    """One block of one event."""

    role: str
    block: Block
    gone: bool = False
    shown: bool = True

    def explain(self, seq: int, issues: IssueList, incomplete: str) -> None:
        """Report why this piece of that event is not among the messages, if it is not."""
        if not self.shown:
            detail = f"a {self.block['type']} block that nothing follows was left out"
            issues.note("incomplete_block", seq, detail, self.block)


class Summary(BlockPiece, gc=False, eq=False):
    """A summary in place of other pieces."""


class CallPiece(BlockPiece, gc=False, eq=False, kw_only=True):
    """A tool call and, once it came, its result. ``grouped``: the results that follow are its.

    It is ``announced`` by a block of an assistant's message, ``begun`` by an event of its own, or both, in either
    order.
    """

    index: int
    key: str | None
    announced: bool
    begun: bool
    result: Block | None = None
    result_seq: int
    grouped: bool = False
    stage: Stage = "begun"

    def stand_in(self) -> Block:
        """Return the result for the model in place of one that never came."""
        why = WHY_NOT_RUN.get(self.stage)
        told = f"(not run: {why})" if why else "(interrupted: whether this call took effect is unknown)"
        return {"type": "tool_result", "tool_use_id": self.block["id"], "content": told, "is_error": True}

    def explain(self, seq: int, issues: IssueList, incomplete: str) -> None:
        if self.result is None:
            mark = "not run" if self.stage in WHY_NOT_RUN else "interrupted"
            done = {"drop": "dropped", "mark": f"marked as {mark}", "keep": "kept"}[incomplete]
            detail = f"call {self.block['id']} to {self.block['name']} has no result: {done}"
            # Marked and kept calls are among the messages: only what is missing is in the report.
            content = self.block if incomplete == "drop" else None
            issues.note("incomplete_tool_call", seq, detail, content)


class ServedCall(msgspec.Struct, eq=False):
    """A server call that is shown without a result; ``carried`` once other calls' results follow it."""

    piece: BlockPiece
    seq: int
    carried: bool = False


class Mark(BlockPiece, gc=False, eq=False, kw_only=True):
    """The place where a result was recorded; the result itself is shown with its call."""

    call: CallPiece | None = None
    repeated: bool = False

    def explain(self, seq: int, issues: IssueList, incomplete: str) -> None:
        if self.call is not None and not self.call.gone:
            return
        identity = self.block["tool_use_id"]
        if self.repeated:
            type, detail = "duplicate_tool_result", f"another result for {identity} was dropped"
        else:
            type, detail = "orphaned_tool_result", f"result for {identity} has no call: dropped"
        issues.note(type, seq, detail, self.block)


class Stream(BlockPiece, gc=False, eq=False, kw_only=True):
    """Streamed text that no final event covers yet: what the user saw before an interruption."""

    index: int
    kind: str
    parts: list[tuple[int, str]]

    def add(self, seq: int, text: str) -> None:
        self.parts.append((seq, text))
        self.gone = self.gone and is_blank(text)

    def cut(self, seq: int) -> None:
        """Remove the deltas from ``seq`` on."""
        self.parts = [part for part in self.parts if part[0] < seq]
        self.gone = all(is_blank(text) for _, text in self.parts)

    def settle(self) -> None:
        """Make one block of the deltas; only when needed, because there may be thousands."""
        text = "".join(part for _, part in self.parts)
        self.block = {"type": "thinking", "thinking": text} if self.kind == "thinking" else text_block(text)


# Drafts of messages: which blocks form one, and which events they came from.
# A conversation may have millions of them, so they are kept end to end: a place in a list and two numbers for each
# block, a number for each message.
ROLES = ("user", "assistant")
"""They alternate, and the user begins."""


class MessageDraft(NamedTuple):
    """A message by itself: its blocks and, for each, its event."""

    role: str
    blocks: list[Block]
    seqs: Sequence[int]
    summary: bool = False


def _is_plain(piece: BlockPiece) -> bool:
    """Return whether a piece follows from its block: words, or a call that an event began, or its result."""
    if piece.gone or not piece.shown:
        return False
    if isinstance(piece, CallPiece):
        own, result = piece.block, piece.result
        is_own = piece.key == own["id"] and piece.begun and not piece.announced and piece.stage == "begun"
        return is_own and result is not None and result["tool_use_id"] == own["id"] and "caller" not in own
    if isinstance(piece, Mark):
        return piece.call is not None and piece.call.result is piece.block
    return type(piece) is BlockPiece and piece.block["type"] == "text"


class Drafts:
    """All drafts of a conversation. ``epoch`` changes when they do anything else than grow.

    ``flat`` are the blocks of all messages, ``told`` the parts that came as messages of a provider.
    """

    __slots__ = ("_seqs", "_starts", "_summaries", "_texts_from", "epoch", "flat", "told")

    def __init__(self) -> None:
        self.epoch = 0
        self.told = NativeMessages()
        self.flat: list[Block] = []
        self._seqs = array("i")  # of long numbers, until one is longer
        self._starts = array("i")
        self._summaries: list[int] = []
        self._texts_from = 0

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[MessageDraft]:
        summaries = set(self._summaries)
        for index in range(len(self._starts)):
            yield MessageDraft(ROLES[index & 1], self.blocks(index), self.seqs(index), index in summaries)

    def role(self, index: int) -> str:
        return ROLES[index & 1]

    def blocks(self, index: int) -> list[Block]:
        """Return the blocks of one message, as a list of the caller's."""
        return self.flat[self._part(index)]

    def spans(self, start: int, stop: int) -> Iterator[list[Block]]:
        """Yield the blocks of each message from one to before another, as lists of the caller's."""
        flat, edges = self.flat, self._starts[start : stop + 1]
        if stop == len(self._starts):
            edges.append(len(flat))
        return (flat[low:high] for low, high in pairwise(edges))

    def last_blocks(self, skipped: int) -> list[Block]:
        """Return the blocks of the last message after a number of them."""
        return self.flat[self._starts[-1] + skipped :]

    def is_assistants(self) -> bool:
        return bool(self._starts) and not len(self._starts) & 1

    def last_count(self) -> int:
        return len(self.flat) - self._starts[-1] if self._starts else 0

    def last_is_texts(self) -> bool:
        return self._texts_from <= self._starts[-1]

    def seqs(self, index: int) -> Sequence[int]:
        return self._seqs[self._part(index)]

    def add(self, role: str, block: Block, seq: int) -> int:
        """Add a block and its event to the last message or a new one; return which it is."""
        starts, blocks = self._starts, self.flat
        last = len(starts) - 1
        if ROLES[last & 1] != role:
            last += 1
            starts.append(len(blocks))
        blocks.append(block)
        try:
            self._seqs.append(seq)
        except OverflowError:
            self._seqs = array("q", self._seqs)
            self._seqs.append(seq)
        if block["type"] != "text":
            self._texts_from = len(blocks)
        return last

    # --- from blocks back to pieces
    def parted(self, first: int, last: int, pieces: Sequence[BlockPiece]) -> int | None:
        """Return the newest event of the blocks from ``first`` on, if the pieces can be rebuilt from them.

        They can if each piece is words, or a call that an event began and its result, and everything before words was
        recorded before them. ``last`` is the newest event of the blocks before; None if they cannot.
        """
        first += first == 0 < len(self.flat) and self._seqs[0] == NOWHERE
        if len(self.flat) - first != len(pieces) or not all(map(_is_plain, pieces)):
            return None
        for block, seq in zip(self.flat[first:], self._seqs[first:], strict=True):
            if block["type"] == "text" and seq <= last:
                return None
            last = max(last, seq)
        return last

    def words_before(self, stop: int, seq: int) -> int:
        """Return the last block before ``stop`` that is words of an event not after ``seq``; else the first."""
        while stop > 0:
            stop -= 1
            if self._seqs[stop] <= seq and self.flat[stop]["type"] == "text":
                break
        # What was inserted before the first words comes and goes with them.
        return 0 if stop == 1 and self._seqs[0] == NOWHERE else stop

    def pieces(self, start: int, stop: int) -> tuple[list[BlockPiece], array[int], array[int]]:
        """Return the pieces that :meth:`parted` blocks were made of, their events, and the blocks before each of them.

        The last is NOWHERE inside a group. ``start`` is a block of words, or the first.
        """
        opening = start == 0 and self._seqs[0] == NOWHERE
        made: list[tuple[int, BlockPiece]] = []
        calls: dict[str, CallPiece] = {}
        for at in range(start + opening, stop):
            block, seq = self.flat[at], self._seqs[at]
            piece: BlockPiece
            if block["type"] == "tool_use":
                id = block["id"]
                piece = CallPiece("assistant", block, index=0, key=id, announced=False, begun=True, result_seq=seq)
                calls[id] = piece
            elif block["type"] == "tool_result":
                call = calls[block["tool_use_id"]]
                call.result, call.result_seq = block, seq
                piece = Mark("user", block, call=call)
            else:
                piece = BlockPiece(ROLES[(bisect_right(self._starts, at) - 1) & 1], block)
            made.append((seq, piece))
        made.sort(key=itemgetter(0))
        spots, count = array("q"), start + opening
        group: set[str] = set()
        for index, (_, piece) in enumerate(made):
            spots.append(NOWHERE if group else count)
            if isinstance(piece, CallPiece):
                piece.index = index
                group.add(piece.block["id"])
                count += 1
                continue
            is_words = not isinstance(piece, Mark)
            # Words, or the first result of a group, put all results of it in place.
            if is_words or piece.block["tool_use_id"] in group:
                count += len(group)
                group.clear()
            count += is_words
        if opening:
            spots[0] = 0
        return [piece for _, piece in made], array("q", [seq for seq, _ in made]), spots

    def mark_summary(self) -> None:
        self._summaries.append(len(self._starts) - 1)

    def cut(self, count: int) -> int:
        """Keep the first ``count`` blocks; return the first message that changed."""
        starts = self._starts
        kept = bisect_left(starts, count)
        if count == len(self.flat):
            return kept
        whole = kept < len(starts) and starts[kept] == count
        first = kept if whole else kept - 1
        del self.flat[count:], self._seqs[count:], starts[kept:]
        # Messages that are extended along with these must be built again.
        self.epoch += 1
        while self._summaries and self._summaries[-1] >= first:
            self._summaries.pop()
        # The removed part may have contained the last block that is not a text.
        if self._texts_from >= count:
            start = starts[-1] if starts else 0
            self._texts_from = len(self.flat)
            while self._texts_from > start and self.flat[self._texts_from - 1]["type"] == "text":
                self._texts_from -= 1
        return first

    def _part(self, index: int) -> slice:
        starts = self._starts
        stop = starts[index + 1] if index + 1 < len(starts) else len(self.flat)
        return slice(starts[index], stop)

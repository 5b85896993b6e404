"""One run's conversation, assembled piece by piece so that it is valid at every moment.

Pieces stay in the order in which they were recorded. Rendering turns them into drafts of messages by one rule: an
assistant's words and then its calls form a group; a group ends with the first result of one of its calls, with a
user's words, or with the assistant's next words after a call. A call that a message announces and an event begins is
one call, and belongs to that message. The results of a group's calls, whenever they came, are placed together right
after it. Rendering continues where it stopped; a change further back (a late result, a retraction) takes it back to
the start of that group.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from typing import Any

from holdfast.replay._blocks import SERVER_CALLS, Block, code_of, is_soft, is_thought, text_block
from holdfast.replay._native import Native
from holdfast.replay._pieces import NOWHERE, BlockPiece, CallPiece, Drafts, IssueList, Mark, ServedCall, Stream, Summary
from holdfast.replay._state import Stage
from holdfast.replay._text import CallNames, fit_id, fit_name, is_named

OPENING = "(the conversation begins here)"  # the user turn that is inserted before an assistant who speaks first

NONE = 1 << 62


class Thread:
    """The pieces of one run and the drafts made of them.

    ``drafts()`` is valid for the strictest provider after any sequence of calls, unless ``incomplete`` is "keep".
    ``touched`` is the first draft that changed since it was last reset. It takes ownership of the blocks that it is
    given.
    """

    def __init__(self, incomplete: str, unit: str = "event") -> None:
        self.issues = IssueList()
        self.issues.unit = unit
        self.touched = 0
        self._incomplete = incomplete
        self._pieces: list[BlockPiece] = []
        # For each piece its event, and for each rendered one how many blocks were there before it; NOWHERE inside a
        # group.
        self._seqs = array("q")
        self._spots = array("q")
        self._drafts = Drafts()
        # The first piece that is no longer shown correctly; NONE if all are.
        self._dirty = NONE
        # Calls of the message that is being rendered, whose results come when it ends.
        self._group: list[CallPiece] = []
        # Blocks that cannot be alone: they wait for one that can.
        self._soft: list[tuple[BlockPiece, int]] = []
        # Server calls that are shown and have no result yet, and those that were shown in vain: they are left out when
        # it is rendered again.
        self._serving: dict[str, ServedCall] = {}
        self._lost: set[BlockPiece] = set()
        # From this piece on what is shown depends on what comes next.
        self._for_now = NONE
        self._names = CallNames()
        self._tools: dict[str, str] = {}
        self._waiting: dict[str, list[CallPiece]] = {}
        # A second result for one of these keys is a repetition, not an early one.
        self.known: set[str] = set()
        self.exchanged: set[str] = set()  # those of calls that came together with their results
        # By id, the call that was answered last, until the next user message.
        self._answered: dict[str, CallPiece] = {}
        self._user_seq = NOWHERE
        # Results that were recorded before their calls: writers do not wait for each other.
        self._early: dict[str, list[tuple[Mark, int]]] = {}
        self._streams: list[Stream] = []
        self.settled_seq = NOWHERE  # up to this event there are no pieces, see :class:`SettledThread`

    # --- recording
    def take(self, seq: int, role: str, block: Block) -> None:
        """Add a block of a message: words, a call or a result."""
        if block["type"] == "tool_use":
            self.call(seq, block["id"], block)
        elif block["type"] == "tool_result":
            self.result(seq, block["tool_use_id"], block)
        else:
            self.say(seq, role, block)

    def say(self, seq: int, role: str, block: Block) -> None:
        """Add words of one side: any block but a call or a result."""
        seq = self._append(seq, BlockPiece(role, block))
        if role == "user":
            # From here on a repeated id is a new call: some models restart their numbering in each turn.
            self._user_seq = seq
            self._answered.clear()

    def call(self, seq: int, key: str | None, block: Block, *, begun: bool = False) -> None:
        """Add a tool call, announced in a message or begun by an event of its own.

        ``key`` pairs it with its result, and with the other half of itself: one id is one call, whichever half was
        recorded first. Its id is made valid and unique.
        """
        if key in self.known or key in self.exchanged:
            self._reach(self._user_seq)
        known = self._same_call(key, block, begun=begun) if key is not None else None
        if known is not None:
            self._join(known, seq, block, begun=begun)
            return
        own, name = self._names.take(fit_id(key) if key else "call"), self.fit_tool(block["name"])
        if key != own and not (key and is_named(key)):
            what = "reused" if key == fit_id(key or "") else "malformed"
            self.issues.note("invalid_id", seq, f"{what} id of a call to {name}: now {own}")
        if name != block["name"]:
            self.issues.note("invalid_name", seq, f"malformed tool name: now {name}")
        block["id"], block["name"] = own, name
        index, announced = len(self._pieces), not begun
        piece = CallPiece("assistant", block, index=index, key=key, result_seq=seq, announced=announced, begun=begun)
        self._append(seq, piece)
        if key is None:
            return
        self.known.add(key)
        early = self._early.get(key)
        if early:
            self._answer(piece, *early.pop(0))
        else:
            self._waiting.setdefault(key, []).append(piece)

    def _same_call(self, key: str, block: Block, *, begun: bool) -> CallPiece | None:
        """Return the call of which this is the other half or another attempt; None if it is new.

        Some models number their calls anew in each turn, so an id alone is not enough: a call that has both its
        halves and its result is over, and so is one with a result once the user has written.
        """
        waiting = self._waiting.get(key)
        open_calls = self._of_this_turn(waiting) if waiting else ()
        for call in open_calls:
            if not (call.begun if begun else call.announced):
                return call
        if begun:
            for call in open_calls:
                name = self._tools.get(block["name"], block["name"])
                if call.block["input"] == block["input"] and call.block["name"] == name:
                    return call
        answered = self._answered.get(key)
        if answered is None or answered.gone:
            return None
        return None if (answered.begun if begun else answered.announced) else answered

    def _of_this_turn(self, calls: Sequence[CallPiece]) -> Sequence[CallPiece]:
        """Return the calls since the last user message; all, if they are all older."""
        if len(calls) == 1 and not calls[0].gone:
            return calls  # nearly always, and there is nothing to choose
        there = [call for call in calls if not call.gone]
        new = [call for call in there if self._seqs[call.index] > self._user_seq]
        return new or there

    def _join(self, call: CallPiece, seq: int, block: Block, *, begun: bool) -> None:
        """Add the other half of a call, or one more attempt at it.

        The conversation shows the model's own arguments, in the message that has them: a provider wants
        its words back unchanged.
        """
        own = call.block
        asked, done = (own, block) if begun else (block, own)
        if begun and call.begun:
            detail = f"call {own['id']} to {own['name']} was begun more than once"
            self.issues.note("repeated_tool_call", seq, detail, block)
            return
        if asked["input"] != done["input"]:
            detail = f"call {own['id']} was begun with other arguments than the model gave"
            self.issues.note("other_arguments", seq, detail, done)
        if "thought_signature" in done:
            asked.setdefault("thought_signature", done["thought_signature"])
        self._spoil(call.index)
        if begun:
            call.begun = True
            return
        # The message came after its call: the call moves there.
        self._pieces[call.index] = BlockPiece("assistant", own, gone=True)
        block["id"], block["name"] = own["id"], own["name"]
        call.block, call.index, call.announced = block, len(self._pieces), True
        self._append(seq, call)

    def fit_tool(self, given: str) -> str:
        """Return the name of a tool as providers accept it: one text for all that are equal."""
        name = self._tools.get(given)
        if name is None:
            name = self._tools[given] = fit_name(given)
        return name

    def amend(self, key: str | None, block: Block) -> bool:
        """Replace the arguments of an open call, unless a message has them; return False if there is no such call."""
        call = self._open_call(key)
        if call is None or call.announced or self._seqs[call.index] < self._user_seq:
            return False
        block["id"], block["name"] = call.block["id"], self.fit_tool(block["name"])
        call.block = block
        self._spoil(call.index)
        return True

    def result(self, seq: int, key: str | None, block: Block) -> None:
        """Add a tool result, wherever its call is. The first one for a call wins."""
        mark = Mark("user", block)
        seq = self._append(seq, mark)
        waiting = self._waiting.get(key) if key is not None else None
        found = self._of_this_turn(waiting) if waiting else ()
        if waiting and key is not None and found:
            call = found[0]
            waiting.remove(call)
            if not waiting:
                del self._waiting[key]
            self._answer(call, mark, seq)
        elif key in self.known or key in self.exchanged:
            mark.repeated = True
        elif key is not None:
            self._early.setdefault(key, []).append((mark, seq))

    def decide(self, key: str | None, stage: Stage | None) -> None:
        """Set the stage of an open call whose user was asked about it or has answered."""
        call = self._open_call(key)
        if call is not None and stage is not None:
            call.stage = stage
            self._spoil(call.index)

    def _open_call(self, key: str | None) -> CallPiece | None:
        """Return the newest call of this key that waits for its result."""
        found = self._of_this_turn(self._waiting.get(key or "", ()))
        return found[-1] if found else None

    def _answer(self, call: CallPiece, mark: Mark, seq: int) -> None:
        own = call.block["id"]
        if mark.block["tool_use_id"] == own:
            # Equal already: but now call and result share one text in memory.
            mark.block["tool_use_id"] = own
            call.result = mark.block
        else:
            call.result = {**mark.block, "tool_use_id": own}
        call.result_seq = seq
        if call.key is not None and not (call.announced and call.begun):
            self._answered[call.key] = call
        mark.call = call
        self._spoil(call.index)

    def size(self) -> int:
        return len(self._pieces)

    def keep_native(self, seq: int, messages: list[dict[str, Any]], first: int) -> None:
        """Note that an event had the pieces from ``first`` on as a provider's messages."""
        pieces = self._pieces[first:]
        calls = [piece for piece in pieces if isinstance(piece, CallPiece)]
        reused = {call.key for call in calls if call.key and call.block["id"] != fit_id(call.key)}
        self._drafts.told.natives[seq] = Native(messages, [piece.block for piece in pieces], reused)

    def keep_system(self, seq: int, messages: list[dict[str, Any]]) -> None:
        """Note a system message that was recorded as a message of the list."""
        self._drafts.told.systems.append((seq, Native(messages)))

    def _forget_native(self, first: int, last: int) -> None:
        if self._drafts.told.forget(first, last):
            self.touched = 0

    def stream(self, seq: int, kind: str, text: str) -> None:
        """Add streamed text as it came, until a final event covers it."""
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, Stream) and last.kind == kind and not last.gone:
            last.add(seq, text)
            self._spoil(last.index)
            return
        # Hidden until it has words: a blank delta must not end a group.
        piece = Stream("assistant", {}, gone=True, index=len(self._pieces), kind=kind, parts=[])
        piece.add(seq, text)
        self._append(seq, piece)
        self._streams.append(piece)

    def cover(self, seq: int, kinds: Collection[str]) -> None:
        """Remove streamed text of some kinds from ``seq`` on, now that it is final."""
        kept: list[Stream] = []
        while self._streams and self._streams[-1].parts[-1][0] >= seq:
            stream = self._streams.pop()
            if stream.kind in kinds:
                stream.cut(seq)
                self._spoil(stream.index)
            if not stream.gone:
                kept.append(stream)
                # It began before: those before it have ended before.
                if self._seqs[stream.index] < seq:
                    break
        self._streams.extend(reversed(kept))

    def retract(self, seq: int) -> Block | None:
        """Remove the content of the event ``seq``; return its first block, None if it had none."""
        first: Block | None = None
        self._reach(seq)
        self._forget_native(seq, seq)
        for index in range(self._find(seq), self._find(seq + 1)):
            piece = self._pieces[index]
            if piece.gone:
                continue
            if isinstance(piece, Mark) and piece.call is not None:
                call = piece.call
                call.result = None
                # In front again: of calls with one id the oldest is answered first.
                self._waiting.setdefault(call.key or "", []).insert(0, call)
                self._spoil(call.index)
            piece.gone = True
            first = first or piece.block
            self._spoil(index)
        return first

    def replace(self, seq: int, blocks: Iterable[Block]) -> None:
        """Insert blocks of text where the event ``seq`` was removed."""
        at = self._find(seq)
        pieces = [BlockPiece(self._pieces[at].role, block) for block in blocks]
        self._splice(at, at, pieces, [seq] * len(pieces))

    def compact(self, first: int, last: int, summary: str) -> int:
        """Replace the events ``first`` to ``last`` by a summary; return how many pieces it replaced.

        A call that is still open, or whose result is outside, stays: a pair is never split.
        """
        self._reach(first)
        self._forget_native(first, last)
        low, high = self._find(first), self._find(last + 1)
        pieces: list[BlockPiece] = [Summary("user", text_block(summary))]
        seqs = [first]
        for at in range(low, high):
            piece = self._pieces[at]
            if self._is_within(piece, first, last):
                piece.gone = True
            else:
                pieces.append(piece)
                seqs.append(self._seqs[at])
        self._streams = [stream for stream in self._streams if not stream.gone]
        self._splice(low, high, pieces, seqs)
        return high - low - len(pieces) + 1

    def _is_within(self, piece: BlockPiece, first: int, last: int) -> bool:
        """Return whether a summary of these events may replace a piece of one of them."""
        if isinstance(piece, CallPiece):
            return piece.result is not None and first <= piece.result_seq <= last
        if isinstance(piece, Mark) and piece.call is not None and not piece.call.gone:
            return first <= self._seqs[piece.call.index] <= last
        return True

    def _append(self, seq: int, piece: BlockPiece) -> int:
        """Append a piece with its event, which is not before that of the last piece."""
        seqs = self._seqs
        # Foreign logs may repeat numbers or go back; ``_find`` needs them in order.
        last = seqs[-1] if seqs else self.settled_seq
        if seq < last:  # noqa: PLR1730 - a call less for each piece
            seq = last
        seqs.append(seq)
        self._pieces.append(piece)
        return seq

    def _reach(self, seq: int) -> None:
        """Make sure that the pieces of the events from ``seq`` on exist."""

    def _find(self, seq: int) -> int:
        return bisect_left(self._seqs, seq)

    def _splice(self, low: int, high: int, pieces: list[BlockPiece], seqs: Sequence[int]) -> None:
        """Replace a stretch of pieces. Rendering starts again from the group before it."""
        self._spoil(max(low - 1, 0))
        self._roll_back()
        self._pieces[low:high] = pieces
        self._seqs[low:high] = array("q", seqs)
        # Everything behind has moved; only these two kinds know their place.
        for index in range(low, len(self._pieces)):
            piece = self._pieces[index]
            if isinstance(piece, (CallPiece, Stream)):
                piece.index = index

    def _spoil(self, index: int) -> None:
        if index < self._dirty and index < len(self._spots):
            self._dirty = index

    # --- rendering
    def drafts(self) -> Drafts:
        """Return the messages as drafts, brought up to date. Not to be changed by the caller."""
        self._lost.clear()
        self._for_now = NONE
        # Each round leaves out at least one more call, so there is a last one.
        while not self._is_rendered():
            pass
        self._dirty = self._for_now
        return self._drafts

    def _is_rendered(self) -> bool:
        """Render new pieces; return False if a server call turned out to be shown in vain.

        Whether its result comes is only seen further on: then it is rendered again without it.
        """
        self._roll_back()
        pieces, spots, flat = self._pieces, self._spots, self._drafts.flat
        for index in range(len(spots), len(pieces)):
            within = self._group or self._soft or self._serving
            spots.append(NOWHERE if within else len(flat))
            piece = pieces[index]
            if not piece.gone:
                self._render(piece, self._seqs[index])
                if self._dirty != NONE:
                    return False
        # More may come: what follows a group or thinking, or waits, is provisional.
        if self._group:
            self._for_now = min(self._for_now, self._group[0].index)
            self._close()
        elif self._soft or self._serving:
            self._for_now = min(self._for_now, len(spots) - 1)
            self._pause()
        return self._dirty == NONE

    def _render(self, piece: BlockPiece, seq: int) -> None:
        if isinstance(piece, CallPiece):
            # A dropped call also ends no group: as if it had never been there.
            if piece.result is not None or self._incomplete != "drop":
                self._show_soft()
                block, code = piece.block, code_of(piece.block)
                if code is not None and code not in self._serving:
                    # The code that makes a call is shown only where it runs.
                    block = {name: value for name, value in block.items() if name != "caller"}
                self._put(piece.role, block, seq)
                piece.grouped = True
                self._group.append(piece)
        elif isinstance(piece, Mark):
            if piece.call is not None and piece.call.grouped:
                self._close()
        else:
            if self._group or (piece.role == "user" and (self._soft or self._serving)):
                self._close()
            if piece.role == "user" and self._serving:
                self._lose(self._serving)
            if isinstance(piece, Stream):
                piece.settle()
            block = piece.block
            if block["type"] != "text" and is_soft(block):
                piece.shown = False
                self._soft.append((piece, seq))
                return
            # It can be alone; the dependent blocks that waited for it come before it.
            if self._soft:
                self._show_soft()
            self._put(piece.role, block, seq)
            if type(piece) is Summary:
                self._drafts.mark_summary()

    def _close(self) -> None:
        """End the assistant's message: the results of its calls follow it."""
        group, self._group = self._group, []
        if self._soft:
            self._end()
        if self._serving:
            # With calls the turn goes on: a server tool runs when they are answered, or its code makes more of them.
            makers = {code_of(call.block) for call in group}
            self._lose(
                key for key, waiting in self._serving.items() if not group or (waiting.carried and key not in makers)
            )
            for waiting in self._serving.values():
                waiting.carried = True
        if len(group) > 1 and self._seqs[group[0].index] in self._drafts.told.natives:
            # A provider's own list is kept as it was: results in the order in which they came.
            group.sort(key=lambda call: (call.result is None, call.result_seq))
        for call in group:
            call.grouped = False
            if call.result is not None or self._incomplete != "keep":
                self._put("user", call.result or call.stand_in(), call.result_seq)

    def _end(self, *, paused: bool = False) -> None:
        """Show the end of a message: server calls and results are allowed there, thinking is not.

        They need words beside them that everybody can read, unless a provider has paused there.
        """
        if paused or self._drafts.is_assistants():
            self._show_soft(last=True)
        self._soft.clear()

    def _pause(self) -> None:
        """End the conversation where an assistant's message may go on.

        Server calls without a result can be last in a message that was recorded as a provider's; so can those
        before calls whose results are last.
        """
        natives, soft = self._drafts.told.natives, self._soft
        if soft:
            self._end(paused=soft[-1][1] in natives)
        if not self._drafts.is_assistants():
            return
        ending = takewhile(lambda block: block["type"] in SERVER_CALLS, reversed(self._drafts.flat))
        last = {block["id"] for block in ending}
        self._lose(
            key
            for key, waiting in self._serving.items()
            if waiting.carried or key not in last or waiting.seq not in natives
        )
        if self._dirty != NONE:
            self._for_now = min(self._for_now, self._dirty)

    def _lose(self, keys: Iterable[str]) -> None:
        """Leave out server calls whose result does not come, and restart from them."""
        for key in list(keys):
            waiting = self._serving[key]
            self._lost.add(waiting.piece)
            self._spoil(self._find(waiting.seq))

    def _show_soft(self, *, last: bool = False) -> None:
        """Add the dependent pieces that waited: a server call only with its result, no thinking as ``last``."""
        shown: list[tuple[BlockPiece, int]] = []
        for piece, seq in self._soft:
            block = piece.block
            if block["type"] in SERVER_CALLS:
                if piece in self._lost or block["id"] in self._serving:
                    continue
                self._serving[block["id"]] = ServedCall(piece, seq)
            elif "tool_use_id" in block and self._serving.pop(block["tool_use_id"], None) is None:
                continue
            shown.append((piece, seq))
        while last and shown and is_thought(shown[-1][0].block):
            shown.pop()
        for piece, seq in shown:
            piece.shown = True
            self._put(piece.role, piece.block, seq)
        self._soft.clear()

    def _put(self, role: str, block: Block, seq: int) -> None:
        drafts = self._drafts
        if role == "assistant" and not drafts.flat:
            drafts.add("user", text_block(OPENING), NOWHERE)
        last = drafts.add(role, block, seq)
        if last < self.touched:  # noqa: PLR1730 - a call less for each block
            self.touched = last

    def _roll_back(self) -> None:
        """Undo rendering back to the start of the group that holds the first spoilt piece."""
        if self._dirty == NONE:
            return
        index, self._dirty = self._dirty, NONE
        # Inside a group there is no place to start from: its results depend on all its calls.
        while self._spots[index] == NOWHERE:
            index -= 1
        self.touched = min(self.touched, self._drafts.cut(self._spots[index]))
        del self._spots[index:]
        self._soft, self._group, self._serving = [], [], {}

    # --- what is not shown
    def report(self) -> IssueList:
        """Return everything that was changed or is not among the messages, as of now."""
        issues = IssueList(self.issues)
        issues.unit = self.issues.unit
        drafts = self.drafts()
        if drafts.flat and drafts.seqs(0)[0] == NOWHERE:
            issues.note("leading_assistant", "start", "a user turn was put before the assistant's")
        for index, piece in enumerate(self._pieces):
            if not piece.gone and (type(piece) is not BlockPiece or not piece.shown):
                piece.explain(self._seqs[index], issues, self._incomplete)
        return issues

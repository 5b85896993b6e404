"""The fast path into a conversation: words, calls and results without anything unusual.

Nearly all events of nearly all logs are such. They go straight to where rendering would have put them; unusual
events, and those that would have to wait, take the slow path, which handles everything.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.model import Event
from holdfast.replay._blocks import Block, call_block, result_block, text_block, text_result
from holdfast.replay._pieces import NOWHERE, CallPiece, Stream
from holdfast.replay._runs import HANDLERS, Router
from holdfast.replay._text import clean_text, is_blank, template
from holdfast.replay._thread import NONE, Thread

if TYPE_CHECKING:
    from holdfast.replay._conversation import Scribe

_is_fit = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
# Members that assign an event to an agent, or make it a part of something else.
_is_usual = frozenset({"agent", "native", "covers_from", "thought_signature", "amends", "begun"}).isdisjoint
_SETTLING = ("user", "assistant", "tool_result")
_SHAPES_MAX = 64


class PlainEvents:
    """Processes plain events of the top-level run. Calls are held until each of them has its result."""

    def __init__(self, router: Router, scribe: Scribe) -> None:
        self._router = router
        self._scribe = scribe
        self._thread = scribe.thread
        router.exchanged = scribe.thread.exchanged
        self._is_open = True
        # Given to the router at the end of the fast path: whether the agent owes an answer, None if there were no
        # words.
        self._owes: bool | None = None
        self._is_prompted = False
        self._held: list[Event] = []
        self._calls: dict[str, tuple[int, Block]] = {}
        self._results: dict[str, tuple[int, Block]] = {}
        self._shapes: dict[tuple[str, ...], dict[str, Any]] = {}

    def look(self, last: object = None) -> None:
        """Determine whether the fast path is open, after an event of this type that did not take it."""
        thread = self._thread
        self._is_open = self._router.is_plain() and (thread.settle() if last in _SETTLING else thread.is_settled)

    def give_back(self) -> list[Event]:
        """Switch to the slow path: forget the events that are held, and return them."""
        if self._owes is not None:
            self._router.hear(owes=self._owes, is_prompted=self._is_prompted)
            self._owes, self._is_prompted = None, False
        held = self._held
        if held:
            self._held, self._calls, self._results = [], {}, {}
        return held

    def takes(self, event: Event) -> bool:
        """Process an event; return False, with nothing done, if it is not plain or does not fit here."""
        try:
            type, held = event.type, self._held
            if type not in HANDLERS:
                if held:
                    held.append(event)
                return True
            if not self._is_open or event.run is not None:
                return False
            seq, data = event.seq, event.data
            if seq <= (held[-1].seq if held else self._thread.settled_seq) or not _is_usual(data):
                return False
            if type == "user" or type == "assistant":  # noqa: PLR1714 - quicker than a set for each event
                return not held and self._say(type, seq, data)
            if type == "tool_call":
                taken = not self._results and self._call(seq, data)
            else:
                taken = type == "tool_result" and self._result(seq, data)
        except Exception:  # noqa: BLE001 - whatever a foreign log holds, the long way says what is wrong
            return False
        if taken and self._held is held:
            held.append(event)
        return taken

    def _say(self, role: str, seq: int, data: dict[str, Any]) -> bool:
        text = data["content"]
        # The same as clean_text and is_blank, without calls for nearly all texts.
        if type(text) is not str or not text or "\0" in text or text.isspace():
            return False
        if not text.isascii() and clean_text(text) is not text:
            return False
        self._owes = role == "user"
        if role == "user":
            self._is_prompted = True
            self._scribe.user_seq = seq
        elif "usage" in data and isinstance(data["usage"], dict):
            self._scribe.usage[seq] = data["usage"]
        self._thread.say_plainly(seq, role, text_block(text))
        return True

    def _call(self, seq: int, data: dict[str, Any]) -> bool:
        key, name, thread = data["id"], data["tool"], self._thread
        if type(key) is not str or type(name) is not str or not _is_fit(key) or key in self._calls:
            return False
        if self._router.knows(key) or key in thread.known or (tool := thread.fit_tool(name)) != name:
            return False
        block = call_block(key, tool, data.get("params"), _refuse)
        block["input"] = self._shaped(block["input"])
        self._calls[key] = seq, block
        return True

    def _shaped(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return equal arguments that share their names with those of other calls: half the memory."""
        names = tuple(given)
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= _SHAPES_MAX or not names:
                return given
            shape = self._shapes[names] = template(**given)
        return shape | given

    def _result(self, seq: int, data: dict[str, Any]) -> bool:
        key, calls, results = data["toolCallId"], self._calls, self._results
        if type(key) is not str or key not in calls or key in results:
            return False
        key = calls[key][1]["id"]  # one text for both
        given = data.get("result")
        if type(given) is dict and len(given) == 1 and "content" in given:
            given = given["content"]  # nearly always, and a text
        if len(data) == 2 and type(given) is str and given.isascii() and not ("\0" in given or is_blank(given)):
            results[key] = seq, text_result(key, given)
        else:
            failed = data.get("is_error") is True
            results[key] = seq, result_block(key, data.get("result"), _refuse, failed=failed)
        if len(results) == len(calls):
            if not self._thread.exchange(calls, results):
                return False
            self._owes = False
            self._held, self._calls, self._results = [], {}, {}
        return True


def _refuse(type: str, detail: str, _content: Any) -> None:
    """Leave anything with an issue to the slow path, except empty results."""
    if type != "empty_result":
        raise ValueError(detail)


# A conversation that drops pieces that its drafts determine, and rebuilds them if need be.
# Of a long conversation nearly all is words, calls and results that are never needed again. Their blocks among the
# drafts, and the event of each, contain everything that pieces would.
class SettledThread(Thread):
    """A thread without pieces up to ``settled_seq``."""

    def __init__(self, incomplete: str) -> None:
        super().__init__(incomplete)
        # The number of blocks of events without pieces.
        self._settled = 0
        self._is_plain = True

    @property
    def is_settled(self) -> bool:
        """True if there are no pieces, so that plain text may go to the drafts at once."""
        return not self._pieces

    def say_plainly(self, seq: int, role: str, block: Block) -> None:
        """Add words of one side, when all pieces are settled."""
        drafts = self._drafts
        if drafts.flat:
            last = drafts.add(role, block, seq)
            if last < self.touched:  # noqa: PLR1730 - as in _put
                self.touched = last
        else:
            self._put(role, block, seq)
        self._settled, self.settled_seq = len(drafts.flat), seq
        if role == "user":
            self._user_seq = seq
            self._answered.clear()

    def exchange(self, calls: Mapping[str, tuple[int, Block]], results: Mapping[str, tuple[int, Block]]) -> bool:
        """Add calls and then their results, when all pieces are settled; return False if an id of theirs is taken."""
        if not self._names.take_all(calls):
            return False
        self.exchanged.update(calls)
        for seq, block in calls.values():
            self._put("assistant", block, seq)
        last = NOWHERE
        for key in calls:
            seq, block = results[key]
            self._put("user", block, seq)
            last = max(last, seq)
        self._settled, self.settled_seq = len(self._drafts.flat), last
        return True

    def settle(self) -> bool:
        """Drop all pieces if their blocks determine them; return whether none is left."""
        if not self._pieces:
            return True
        if not self._is_plain or self._waiting or self._early or self._streams:
            return False
        drafts = self.drafts()
        high = None if drafts.told else drafts.parted(self._settled, self.settled_seq, self._pieces)
        self._is_plain = high is not None and all(low < high for low, high in pairwise(self._seqs))
        if high is None or not self._is_plain:
            return False
        self._settled, self.settled_seq = len(drafts.flat), high
        self._pieces, self._seqs, self._spots = [], array("q"), array("q")
        self._group, self._dirty = [], NONE
        self._answered.clear()
        return True

    def _reach(self, seq: int) -> None:
        """Rebuild the dropped pieces of the events from ``seq`` on."""
        if seq > self.settled_seq or not self._settled:
            return
        start = self._drafts.words_before(self._settled, seq)
        pieces, seqs, spots = self._drafts.pieces(start, self._settled)
        for piece in self._pieces:
            if isinstance(piece, (CallPiece, Stream)):
                piece.index += len(pieces)
        if self._dirty != NONE:
            self._dirty += len(pieces)
        for piece in pieces:
            if isinstance(piece, CallPiece) and piece.result_seq > self._user_seq:
                self._answered.setdefault(piece.block["id"], piece)
        self._pieces[:0], self._seqs[:0], self._spots[:0] = pieces, seqs, spots
        self._settled, self.settled_seq = start, seqs[0] - 1 if start else NOWHERE

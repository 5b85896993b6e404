"""Lists of messages handed out at a cost that does not grow with their length.

The caller gets a list of its own, yet nothing is copied: two buffers take turns, and a buffer is
only written to while nobody else refers to it. A buffer that lags behind is brought up to date from
the first message that changed. If both are in use, a fresh copy takes the place of the older one.
"""

from __future__ import annotations

from array import array
from sys import getrefcount

from holdfast.replay._dialects import Dialect, Growth, Message
from holdfast.replay._native import last_systems, write_draft
from holdfast.replay._pieces import ROLES, Drafts

_LONG = 16  # blocks; shorter messages are simply written anew


class _Buffer:
    """A list that may be handed out, and how much of it is known to be right."""

    __slots__ = ("items", "last", "length", "right", "tail")

    def __init__(self) -> None:
        self.items: list[Message] = []
        self.right = 0
        self.length = 0
        self.last: Message | None = None
        self.tail: _Tail | None = None

    def references(self) -> int:
        """How many hold the list, this call among them."""
        return getrefcount(self.items)

    def is_free(self) -> bool:
        """Whether nobody else holds the list."""
        return self.references() <= _OWN_REFERENCES

    def is_intact(self) -> bool:
        """Whether the list still has the length and the end it was handed out with."""
        items = self.items
        return len(items) == self.length and (not items or items[-1] is self.last)

    def fill(
        self,
        flat: list[Message],
        tail: Drafts | None,
        growth: Growth | None,
        last: list[Message],
    ) -> list[Message]:
        """Bring the list up to date; ``last`` stands at its end for now."""
        items = self.items
        del items[self.right :]
        items.extend(flat[self.right :])
        self.right = len(flat)
        if tail is None or growth is None:
            self.tail = None
        else:
            if self.tail is None or not self.tail.follow():
                self.tail = _Tail(tail, growth)
            items.append(self.tail.message)
        items += last
        self.length = len(items)
        self.last = items[-1] if items else None
        return items


class _Tail:
    """This buffer's own copy of a long last message, which grows with it."""

    __slots__ = ("content", "count", "drafts", "epoch", "growth", "message", "number")

    def __init__(self, drafts: Drafts, growth: Growth) -> None:
        self.drafts = drafts
        self.epoch = drafts.epoch
        self.number = len(drafts)
        self.growth = growth
        self.count = 0
        self.message, self.content = growth.begin(ROLES[(self.number - 1) & 1])
        self._extend()

    def follow(self) -> bool:
        """Grow with the last message; False if it is another one, changed otherwise, or is held."""
        if self.epoch != self.drafts.epoch or self.number != len(self.drafts):
            return False
        if getrefcount(self.content) > _TAIL_REFERENCES:
            return False
        if getrefcount(self.message) > _TAIL_REFERENCES:
            return False
        self._extend()
        return True

    def _extend(self) -> None:
        blocks = self.drafts.last_blocks(self.count)
        parts = map(self.growth.part, blocks)
        self.content.extend(part for part in parts if part is not None)
        self.count += len(blocks)


class View:
    """The messages of one conversation in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._flat: list[Message] = []
        self._starts = array("q")
        self._fresh = 0
        self._systems: list[int] = []
        self._buffers = [_Buffer(), _Buffer()]

    def spoil(self, index: int) -> None:
        """The drafts from this one on have changed."""
        self._fresh = min(self._fresh, index)

    def hand_out(self, drafts: Drafts) -> list[Message]:
        """The messages for these drafts, as a list that the caller may keep."""
        tail = drafts if self._is_tail_open(drafts) else None
        self._update(drafts, len(drafts) - (tail is not None))
        last: list[Message] = []
        if drafts.told.systems:
            last = last_systems(self._dialect, drafts, self._systems[-1] if self._systems else 0)
        return self._pick().fill(self._flat, tail, self._dialect.growth, last)

    def _is_tail_open(self, drafts: Drafts) -> bool:
        """Whether the last message is so long that writing it anew each time would show."""
        growth = self._dialect.growth
        if growth is None or drafts.last_count() <= _LONG or drafts.told:
            return False
        return not growth.texts_only or drafts.last_is_texts()

    def _update(self, drafts: Drafts, stop: int) -> None:
        start = min(self._fresh, stop)
        if start < len(self._starts):
            cut = self._starts[start]
            del self._flat[cut:], self._starts[start:]
            for buffer in self._buffers:
                buffer.right = min(buffer.right, cut)
        if drafts.told and self._dialect.name != "neutral":
            self._update_told(drafts, start, stop)
            return
        flat, starts, write = self._flat, self._starts, self._dialect.write
        before = drafts.blocks(start - 1) if start else []
        for index, blocks in enumerate(drafts.spans(start, stop), start):
            starts.append(len(flat))
            flat += write(ROLES[index & 1], blocks, before)
            before = blocks
        self._fresh = stop

    def _update_told(self, drafts: Drafts, start: int, stop: int) -> None:
        """Update what is kept, where some of it came as messages of a provider."""
        systems = self._systems
        systems += [0] * (start - len(systems))  # before the first of them there was none
        at = systems[start - 1] if start else 0
        del systems[start:]
        for index in range(start, stop):
            self._starts.append(len(self._flat))
            messages, at = write_draft(self._dialect, drafts, index, at)
            self._flat += messages
            systems.append(at)
        self._fresh = stop

    def _pick(self) -> _Buffer:
        """A buffer that may be written to; the one handed out longest ago first."""
        buffers = self._buffers
        for index, buffer in enumerate(buffers):
            if buffer.is_free():
                if not buffer.is_intact():
                    buffer.items.clear()
                    buffer.right = 0
                    buffer.tail = None
                buffers.append(buffers.pop(index))
                return buffer
        del buffers[0]
        buffers.append(_Buffer())
        return buffers[-1]


_OWN_REFERENCES = _Buffer().references()
_TAIL_REFERENCES = _OWN_REFERENCES + 1  # in the message or in the list as well

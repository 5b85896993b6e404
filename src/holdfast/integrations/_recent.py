"""The conversations that an adapter used last: what it ever read does not stay in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from holdfast.integrations._place import AdapterSession

LIMIT = 256
_AT_ONCE = 4  # whoever comes makes room for more than itself, and waits for little


class _Placed(Protocol):
    place: AdapterSession


_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept", bound=_Placed)


class Recent(Generic[_Key, _Kept]):
    """Conversations by what they are called; each is one object as long as anybody has it.

    The few hundred that were asked for last are kept. Of the others those go that nobody has, and
    whose session is not held; asked for again, they are made and read anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: OrderedDict[_Key, _Kept] = OrderedDict()
        # Two objects for one conversation would wait for each other: who has the first keeps it.
        self._known: WeakValueDictionary[_Key, _Kept] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._last)

    def get(self, key: _Key, make: Callable[[], _Kept]) -> _Kept:
        """The one of this name; made if there is none. Keep it while it is used."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = make()
            self._last[key] = found
            self._last.move_to_end(key)
            self._make_room()
            return found

    def pop(self, key: _Key) -> _Kept | None:
        """Forget the one of this name; None if there was none."""
        with self._lock:
            self._last.pop(key, None)
            return self._known.pop(key, None)

    def known(self) -> dict[_Key, _Kept]:
        """All that are kept here, and those that somebody has."""
        with self._lock:
            return dict(self._known.items())

    def _make_room(self) -> None:
        for _ in range(_AT_ONCE):
            if len(self._last) <= LIMIT:
                return
            key, oldest = self._last.popitem(last=False)
            if oldest.place.held_seq() is not None:
                self._last[key] = oldest  # still being written, or just now: among the newest

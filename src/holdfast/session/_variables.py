"""A session's variables: a mapping whose every change is an event."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay import LoadBlob, State, read_variable

__all__ = ["NotStoredWarning", "Variables"]


class NotStoredWarning(UserWarning):
    """A variable holds something that cannot be stored; it lasts as long as the process."""


class Owner(Protocol):
    """What the views of a session need of it."""

    @property
    def live_state(self) -> State:
        """The state as it is, not a copy."""

    @property
    def redacts(self) -> bool:
        """Whether what is recorded may differ from what was given."""

    def append(
        self, event: Event | str, data: dict[str, Any] | None = None, *, key: str | None = None
    ) -> Event:
        """Record one event."""


class Variables(MutableMapping[str, Any]):
    """Reads are copies: changing what was read changes nothing until it is set again."""

    def __init__(
        self,
        owner: Owner,
        load: LoadBlob | None = None,
        on_lost: Callable[[str, list[str]], None] = lambda _name, _lost: None,
    ) -> None:
        self._owner = owner
        self._load = load
        self._on_lost = on_lost
        self._in_memory: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._in_memory:
            return self._in_memory[name]
        return read_variable(self._owner.live_state.encoded[name], self._load, ())

    def __setitem__(self, name: str, value: Any) -> None:
        self._set(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._in_memory.pop(name, None)
        if name in self._owner.live_state.encoded:
            self._owner.append("variable_delete", {"name": name})

    def __iter__(self) -> Iterator[str]:
        stored = self._owner.live_state.encoded
        yield from list(stored)
        yield from [name for name in self._in_memory if name not in stored]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._in_memory or name in self._owner.live_state.encoded

    def __repr__(self) -> str:
        return f"Variables({dict(self)!r})"

    def copy(self) -> dict[str, Any]:
        """All of them as a plain dict."""
        return dict(self)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Make the variables exactly these."""
        for name in [name for name in self if name not in values]:
            del self[name]
        self.update(values)

    def _set(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError("a variable's name is a text that is not empty")
        from holdfast.model import encode_value

        stored, lost = encode_value(value)
        if not lost:
            event = self._owner.append("variable_set", {"name": name, "value": stored})
            self._in_memory.pop(name, None)
            if self._owner.redacts and event.data.get("value") != stored:
                self._in_memory[name] = value  # the program goes on with what it has set
            return
        self._owner.append("variable_set", {"name": name, "value": stored, "lost": lost})
        self._in_memory[name] = value
        self._on_lost(name, lost)
        warnings.warn(
            f"variable {name!r} holds what cannot be stored ({', '.join(lost)});"
            " it is kept in memory only",
            NotStoredWarning,
            stacklevel=3,
        )

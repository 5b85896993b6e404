"""Options of an agent: its features, and how its session is kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import msgspec

from holdfast.agent._context import Suspend
from holdfast.errors import UsageError
from holdfast.session import check_wait
from holdfast.storage import Store

if TYPE_CHECKING:
    from holdfast.library import Holdfast

T = TypeVar("T", bound=msgspec.Struct)

Strategy = Literal["none", "window", "summarise"]
"""The handling of a conversation that outgrows its window."""
Scope = Literal["once", "session", "always"]
"""The duration for which an approval is valid."""
SUSPEND = "suspend"
"""The permission with which a call waits for an answer."""
STRATEGIES, SCOPES = get_args(Strategy), get_args(Scope)


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """The features of an agent. The state of a disabled one is neither saved nor restored."""

    memory: bool = True
    """Working memory, its tools, and the cache of idempotent tools."""
    in_context_memory: bool = False
    """True to show the memory to the model with the instructions."""
    persistent_instructions: bool = False
    """True to read the agent's ``custom_instructions.md`` at each run."""
    history: bool = True
    """The conversation. Without it every run starts with an empty one."""
    permissions: bool = True
    """True if tools that need permission ask for it; if False, every tool runs unasked."""
    persistent_session: bool | None = None
    """True if the session outlives the agent object; None to use the agent's argument of that name."""


class PersistentSession(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a persistent session. ``storage`` is a path, a URL, a Store or a Holdfast."""

    storage: str | os.PathLike[str] | Store | Holdfast | None = None
    autosave_ms: int = 30_000
    """Flush what is dirty this often; 0 keeps everything in memory until ``save()`` or close."""
    save_on_close: bool = True
    load_on_create: bool = True
    memory: Store | None = None
    """The store of the agent's lasting memory, if it is not that of its sessions."""
    wait_ms: float | None = None
    """The time to wait for the session while another process has it; None to use the setting."""

    def __post_init__(self) -> None:
        if self.wait_ms is not None:
            check_wait(self.wait_ms)
        if isinstance(self.autosave_ms, bool) or not isinstance(self.autosave_ms, int):
            raise UsageError("autosave_ms is a whole number of milliseconds")
        if self.autosave_ms < 0:
            raise UsageError("autosave_ms cannot be negative; 0 switches autosave off")

    @property
    def staged(self) -> bool:
        """True if events are stored only on request."""
        return self.autosave_ms == 0


def settle_features(given: Features | Mapping[str, bool] | None) -> Features:
    """Return the requested features, also from a dict of their names. Raises UsageError."""
    return Features() if given is None else made("features", Features, given)


def settle_persistence(
    given: bool | PersistentSession | Mapping[str, Any],  # noqa: FBT001 - the shorthand of the public surface
    *,
    flag: bool | None,
    named: bool,
) -> PersistentSession | None:
    """Return the options if the agent is persistent; else None.

    It is if the feature's ``flag`` is on; if that is None, if options were given or its
    session was ``named``. Raises UsageError if it is both on and off.
    """
    if isinstance(given, bool):
        settings, wanted = PersistentSession(), given or named
    else:
        settings, wanted = made("persistent_session", PersistentSession, given), True
    if flag is False and (given is True or named):
        raise UsageError(
            "the agent is to have a session that stays, and features switch that off",
            remedy="Leave persistent_session out of the features.",
        )
    return settings if (wanted if flag is None else flag) else None


def check_lists(**given: Any) -> None:
    """Raise UsageError unless values that must be lists are lists."""
    for name, value in given.items():
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
            raise UsageError(f"{name} are a list, not {type(value).__name__}")


def check_library(given: Any) -> None:
    """Raise UsageError unless the value is a Holdfast or None."""
    from holdfast.library import Holdfast

    if not isinstance(given, (Holdfast, type(None))):
        raise UsageError(f"hf is a Holdfast, not {type(given).__name__}", remedy="Open one: holdfast.open(…).")


def check_texts(**given: Any) -> None:
    """Raise UsageError unless the values are texts or None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name} is a text, not {value!r:.40}")


def check_whole(least: int, *, or_none: bool = False, **given: Any) -> None:
    """Raise UsageError unless the values are whole numbers, at least that (or None, where that is allowed)."""
    for name, value in given.items():
        if value is None and or_none:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{name} is a whole number, not {value!r:.40}")
        if value < least:
            raise UsageError(f"{name} is at least {least}, not {value}")


def check_function(**given: Any) -> None:
    """Raise UsageError unless the values are callable or None."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise UsageError(f"{name} is a function, not {value!r:.40}")


def check_permission(given: Any) -> None:
    """Raise UsageError unless the value can answer a permission request."""
    if given is not None and given != SUSPEND and not isinstance(given, Suspend) and not callable(given):
        raise UsageError(f'permission is a function, "suspend" or a Suspend, not {given!r:.40}')


def check_map(**given: Any) -> None:
    """Raise UsageError unless the value is a mapping or None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, Mapping):
            raise UsageError(f"{name} is a dict, not {value!r:.40}")


def made(name: str, kind: type[T], given: T | Mapping[str, Any]) -> T:
    """Return the options, also if they were given as a dict. Raises UsageError."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise UsageError(f"{name} is a {kind.__name__} or a dict, not {given!r:.60}")
    fields = kind.__struct_fields__
    if strange := [key for key in given if key not in fields]:
        known = ", ".join(fields)
        raise UsageError(f"{name} has no setting {strange[0]!r}", remedy=f"One of {known}.")
    return kind(**given)

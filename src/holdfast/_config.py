"""Where the store is and how sessions behave: code, then environment, then what is found."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.model import Limits
from holdfast.session import Options
from holdfast.storage import Store, open_store

__all__ = ["Settings", "default_location", "settle"]

ENVIRONMENT = "HOLDFAST_STORE"
PROJECT_FOLDER = ".holdfast"
_KEYS = ("store", "storage", "limits", "durability", "autosave_ms", "snapshot_ms")
_TYPES = ("none", "memory", "filesystem")
_FILESYSTEM_PATH = ".agent-sessions"


class Settings(msgspec.Struct, frozen=True):
    """What ``holdfast.open`` was told, with defaults for the rest."""

    store: Store
    limits: Limits
    defaults: dict[str, Any]

    def options(self, **given: Any) -> Options:
        """The options of one session: what was given, else the settings."""
        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            return Options(**{"limits": self.limits, **self.defaults, **chosen})
        except TypeError as error:
            raise UsageError(f"unknown option: {error}") from error


def settle(
    where: str | os.PathLike[str] | Store | None,
    config: Mapping[str, Any] | None,
    limits: Limits | None,
) -> Settings:
    """Settings from what the caller gave. Raises UsageError for a misspelt or wrong one."""
    config = dict(config or {})
    for name in config:
        if name not in _KEYS:
            raise UsageError(f"unknown setting {name!r}{_suggestion(name, _KEYS)}")
    if where is None:
        where = _configured_place(config)
    store = where if isinstance(where, Store) else open_store(where or default_location())
    names = ("durability", "autosave_ms", "snapshot_ms")
    defaults = {name: config[name] for name in names if name in config}
    return Settings(store, limits or _limits(config.get("limits", {})), defaults)


def default_location() -> str:
    """The place of the store when the caller names none."""
    from_environment = os.environ.get(ENVIRONMENT)
    if from_environment:
        return from_environment
    return _project_folder() or _user_folder()


def _configured_place(config: Mapping[str, Any]) -> str | os.PathLike[str] | Store | None:
    if "storage" not in config:
        place: str | None = config.get("store")
        return place
    storage = config["storage"]
    kind = storage.get("type", "none") if isinstance(storage, Mapping) else None
    if kind not in _TYPES:
        raise UsageError(
            f"storage type {kind!r} is none of {', '.join(_TYPES)}{_suggestion(str(kind), _TYPES)}"
        )
    if kind != "filesystem":
        return f"{kind}:"
    path = (storage.get("options") or {}).get("path", _FILESYSTEM_PATH)
    if not isinstance(path, str) or not path:
        raise UsageError("storage.options.path must be the path of a directory")
    return path


def _limits(given: Any) -> Limits:
    if isinstance(given, Limits):
        return given
    try:
        return Limits(**given)
    except TypeError as error:
        raise UsageError(f"unknown limit: {error}") from error


def _project_folder() -> str | None:
    """``.holdfast`` in the working directory or above it, as far as the project goes."""
    folder = os.getcwd()
    while True:
        candidate = os.path.join(folder, PROJECT_FOLDER)
        if os.path.isdir(candidate):
            return candidate
        parent = os.path.dirname(folder)
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = parent


def _user_folder() -> str:
    from platformdirs import user_data_dir

    return user_data_dir("holdfast", appauthor=False)


def _suggestion(name: str, allowed: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name.lower(), allowed, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

"""What ``holdfast.open`` makes of the configuration."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from holdfast._config._sources import Configuration, Given, configuration
from holdfast.errors import UsageError
from holdfast.model import Limits
from holdfast.session import Options
from holdfast.storage import Store, open_store

__all__ = ["Settings", "default_location", "settle"]

_OF_SESSIONS = ("durability", "autosave_ms", "snapshot_ms", "wait_ms")


class Settings(msgspec.Struct, frozen=True):
    """What ``holdfast.open`` was told, with defaults for the rest."""

    store: Store
    limits: Limits
    defaults: dict[str, Any]
    configuration: Configuration

    def options(self, **given: Any) -> Options:
        """The options of one session: what was given, else the settings."""
        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            return Options(**{"limits": self.limits, **self.defaults, **chosen})
        except TypeError as error:
            raise UsageError(f"unknown option: {error}") from error


def settle(
    where: str | os.PathLike[str] | Store | None,
    config: Given,
    limits: Limits | None,
    space: str | None = None,
) -> Settings:
    """Settings from what the caller gave. Raises UsageError for a misspelt or wrong one."""
    found = configuration(config)
    place = found.get("store") if where is None else where
    store = place if isinstance(place, Store) else open_store(place)
    if space is None and not isinstance(place, Store):
        space = found.get("space")
    if space is not None:
        from holdfast.storage import SpaceStore

        store = SpaceStore(store, space)
    defaults = {name: found.get(name) for name in _OF_SESSIONS if found.origin(name)}
    return Settings(store, limits or Limits(**found.below("limits")), defaults, found)


def default_location() -> str:
    """The place of the store when the caller names none."""
    place: str = configuration().get("store")
    return place

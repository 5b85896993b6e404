"""Where the store is and how everything behaves: code, environment, project, user."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from typing import Any

    from holdfast._config._keys import KEYS, variable
    from holdfast._config._places import (
        ENVIRONMENT,
        PROJECT_FOLDER,
        prices_file,
        store_without_settings,
    )
    from holdfast._config._prices import load_prices
    from holdfast._config._settings import (
        Configuration,
        Given,
        Settings,
        configuration,
        default_location,
        places,
        settle,
        strange_variables,
    )

# Loaded when first asked for: the command's quick start asks for a place alone.
_LAZY = {
    "Configuration": "_settings",
    "ENVIRONMENT": "_places",
    "Given": "_settings",
    "KEYS": "_keys",
    "PROJECT_FOLDER": "_places",
    "Settings": "_settings",
    "configuration": "_settings",
    "default_location": "_settings",
    "load_prices": "_prices",
    "places": "_settings",
    "prices_file": "_places",
    "settle": "_settings",
    "store_without_settings": "_places",
    "strange_variables": "_settings",
    "variable": "_keys",
}

__all__ = [
    "ENVIRONMENT",
    "KEYS",
    "PROJECT_FOLDER",
    "Configuration",
    "Given",
    "Settings",
    "configuration",
    "default_location",
    "load_prices",
    "places",
    "prices_file",
    "settle",
    "store_without_settings",
    "strange_variables",
    "variable",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value

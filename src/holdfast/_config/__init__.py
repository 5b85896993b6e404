"""Where the store is and how everything behaves: code, environment, project, user."""

from __future__ import annotations

from holdfast._config._keys import KEYS, variable
from holdfast._config._prices import load_prices, prices_file
from holdfast._config._settling import Settings, default_location, settle
from holdfast._config._sources import (
    ENVIRONMENT,
    PROJECT_FOLDER,
    Configuration,
    Given,
    configuration,
    places,
    strange_variables,
)

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
    "strange_variables",
    "variable",
]

"""Where the store is and how everything behaves: code, environment, project, user."""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from holdfast._config._keys import KEYS, variable
    from holdfast._config._places import ENVIRONMENT, PROJECT_FOLDER, prices_file, store_without_settings
    from holdfast._config._settings import (
        Configuration,
        Given,
        Settings,
        configuration,
        default_location,
        load_prices,
        places,
        settle,
        strange_variables,
    )

# Loaded when first asked for: the command's quick start asks for a place alone.
__getattr__ = lazy(
    __name__,
    {
        "_keys": "KEYS variable",
        "_places": "ENVIRONMENT PROJECT_FOLDER prices_file store_without_settings",
        "_settings": (
            "Configuration Given Settings configuration default_location load_prices places settle strange_variables"
        ),
    },
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
    "store_without_settings",
    "strange_variables",
    "variable",
]

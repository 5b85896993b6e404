"""The place of the store and all settings: code, environment, project, user."""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from holdfast._config._keys import KEYS, variable
    from holdfast._config._places import ENVIRONMENT, agent_folders, prices_file, store_without_settings
    from holdfast._config._settings import (
        Configuration,
        Found,
        Given,
        Settings,
        configuration,
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
        "_places": "ENVIRONMENT agent_folders prices_file store_without_settings",
        "_settings": ("Configuration Found Given Settings configuration load_prices places settle strange_variables"),
    },
)

__all__ = ["ENVIRONMENT", "KEYS", "Configuration", "Found", "Given", "Settings", "configuration", "settle"]
__all__ += ["agent_folders", "load_prices", "places", "prices_file"]
__all__ += ["store_without_settings", "strange_variables", "variable"]

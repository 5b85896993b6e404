"""The prices that count: those in prices.toml, then those in the settings, then the built-in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast._config._places import prices_file
from holdfast._config._settings import Configuration, read_table
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.catalog import Prices


def load_prices(found: Configuration) -> Prices:
    """The table of prices. Raises UsageError for one that is wrong, with its place."""
    from holdfast.catalog import Prices, read_prices

    own = read_prices(found.get("prices") or {})
    place = prices_file()
    if os.path.isfile(place):
        try:
            own = {**own, **read_prices(read_table(place))}
        except UsageError as error:
            message = error.message if place in error.message else f"{place}: {error.message}"
            raise UsageError(message, remedy="Correct the file.") from error
    return Prices(own)

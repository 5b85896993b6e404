"""The time until the list is shown: its first page is asked for, and nothing is collected."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from holdfast.apps.tui._sessions import Shelf

if TYPE_CHECKING:
    from holdfast.library import Holdfast


class Start:
    """Begins when it is made, before the libraries that draw are loaded; the app ends it.

    Hardly anything of what they make is ever let go, so looking for garbage among it takes a tenth
    of the time until the list is there, and finds nothing.
    """

    def __init__(self, library: Holdfast) -> None:
        self.shelf = Shelf(library)
        self.shelf.ask_ahead()
        self._rests = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Collect as before; what is there now stays and is not looked at again."""
        if self._rests:
            self._rests = False
            gc.freeze()
            gc.enable()

"""The terminal app: browse, read, search, compare and talk, in one place.

Everything that is shown passes through ``_page_screen`` or ``_safe``, where it is neutralised;
nothing of a session is ever read as markup. Whatever may take time runs in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.apps.tui._app import SessionsApp
    from holdfast.library import Holdfast

__all__ = ["SessionsApp", "make_app"]

__getattr__ = lazy(__name__, {"_app": "SessionsApp"})  # all that draws is loaded with it


def make_app(library: Holdfast, **wishes: Any) -> SessionsApp:
    """Return the app, to be run at once: what it shows first is fetched while it is being loaded.

    ``wishes`` are those of SessionsApp. The library is the caller's, who closes it.
    """
    from holdfast.apps.tui._sessions import Start

    start = Start(library)
    try:
        from holdfast.apps.tui._app import SessionsApp

        return SessionsApp(library, start=start, **wishes)
    except BaseException:
        start.end()
        raise

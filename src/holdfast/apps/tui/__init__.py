"""The terminal app: browse, read, search, compare and talk, in one place.

Everything that is shown passes through ``_paper`` or ``_safe``, where it is neutralised; nothing of
a session is ever read as markup. Whatever may take time runs in a thread.
"""

from __future__ import annotations

from holdfast.apps.tui._app import SessionsApp

__all__ = ["SessionsApp"]

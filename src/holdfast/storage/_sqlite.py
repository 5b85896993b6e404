"""The one door to SQLite: nothing else imports it."""

from __future__ import annotations

__all__ = ["sqlite_version"]


def sqlite_version() -> str | None:
    """The version of the SQLite library that Python brings; None if this Python has none."""
    try:
        import sqlite3
    except ImportError:
        return None
    return sqlite3.sqlite_version

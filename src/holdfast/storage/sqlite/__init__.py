"""The SQLite store, and the only module that imports SQLite."""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than the whole of a short command
if TYPE_CHECKING:
    from holdfast.storage.sqlite.connection import (
        Connection,
        connect,
        discard,
        failures,
        file_mark,
        is_busy,
        sqlite_errors,
        sqlite_version,
        transaction,
    )

__getattr__ = lazy(
    __name__,
    {"connection": ("Connection connect discard failures file_mark is_busy sqlite_errors sqlite_version transaction")},
)

__all__ = ["Connection", "connect", "discard", "failures", "file_mark", "transaction"]
__all__ += ["is_busy", "sqlite_errors", "sqlite_version"]
